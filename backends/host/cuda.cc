// The functions of cuda.h that need no CUDA.
#include "backends/host/cuda.h"

#include "core/base/status.h"

namespace twofold::host {

int CudaChoice::RanksOn(int gpu, int local_ranks) const {
  int ranks = 0;
  for (int r = 0; r < local_ranks; ++r) ranks += Of(r) == gpu;
  return ranks;
}

absl::Status CudaCannotBeHad() {
  return InvalidArgument("device: CUDA is not available: ", WhyNoCuda(),
                         "; use CPU, or predict on a cluster of GPUs with --fabric=simulated");
}

void GpuReserved::Add(int gpu, Bytes size) {
  std::lock_guard lock(mutex_);
  reserved_[gpu] += size;
}

Bytes GpuReserved::Of(int gpu) const {
  std::lock_guard lock(mutex_);
  const auto found = reserved_.find(gpu);
  return found == reserved_.end() ? Bytes(0) : found->second;
}

}  // namespace twofold::host
