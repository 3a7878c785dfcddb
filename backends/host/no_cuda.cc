#include "backends/host/cuda.h"
#include "core/base/check.h"

namespace twofold::host {

std::string WhyNoCuda() {
  return "this build has no CUDA (nvcc and cuBLASLt were not found when it was configured, or TWOFOLD_CUDA was OFF; "
         "see docs/gpus.md)";
}

int GpusHere() { return 0; }
bool GpusAreEmulated() { return false; }

absl::StatusOr<CudaChoice> ChooseCuda(const spec::Spec&) { return CudaCannotBeHad(); }

// Never called without a GPU.
std::string DescribeGpu(int) { TWOFOLD_CHECK(false, WhyNoCuda()); }
std::vector<std::string> DescribeGpuLibraries() { TWOFOLD_CHECK(false, WhyNoCuda()); }
std::string NameOfGpu(int) { TWOFOLD_CHECK(false, WhyNoCuda()); }
GpuFigures FiguresOfGpu(int) { TWOFOLD_CHECK(false, WhyNoCuda()); }
Bytes FreeMemoryOf(int) { TWOFOLD_CHECK(false, WhyNoCuda()); }
Bytes UsedBeyond(const GpuReserved&, int) { TWOFOLD_CHECK(false, WhyNoCuda()); }
std::unique_ptr<MemorySource> NewGpuSource(int, Bytes, GpuReserved&) { TWOFOLD_CHECK(false, WhyNoCuda()); }
std::unique_ptr<MemorySource> NewPinnedSource(int, Bytes) { TWOFOLD_CHECK(false, WhyNoCuda()); }
CudaRank NewCudaDevice(CachingAllocator&, CachingAllocator&, const CudaChoice&, int, int, CudaObservers) {
  TWOFOLD_CHECK(false, WhyNoCuda());
}

}  // namespace twofold::host
