#include "backends/host/cuda_mover.h"
#include "core/base/check.h"

namespace twofold::host {

std::unique_ptr<Mover> MakeCudaMover(Device&) { TWOFOLD_CHECK(false, "this build has no CUDA"); }

absl::Status ConnectGpus(std::span<const int>, int) { return absl::OkStatus(); }  // there are no GPUs

}  // namespace twofold::host
