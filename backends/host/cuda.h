// GPUs for ranks that are threads of one process. with_cuda.cc or no_cuda.cc defines these: CMake chooses.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/proto/spec.pb.h"

namespace twofold::host {

// Why device: CUDA cannot be had: this build has none, or this machine has no GPU. "" where it can.
std::string WhyNoCuda();
absl::Status CudaCannotBeHad();  // with the reason
int GpusHere();
bool GpusAreEmulated();  // in this process's memory, of which no library knows (mode EMULATED)
// Of one of those. "GPU 0: NVIDIA H200, ...".
std::string DescribeGpu(int gpu);
std::string NameOfGpu(int gpu);  // as its vendor calls it
struct GpuFigures {
  std::string software;          // versions
  int64_t memory_bytes = 0, multiprocessors = 0, l2_bytes = 0;
  double clock_hz = 0;           // the highest; 0: not told
};
GpuFigures FiguresOfGpu(int gpu);
std::vector<std::string> DescribeGpuLibraries();  // those of the GPU's vendor that this process has loaded, with their versions
Bytes FreeMemoryOf(int gpu);     // makes the process's context there, which takes some of it

// How the ranks of a process use GPUs.
struct CudaChoice {
  std::vector<int> gpus;  // the local rank r uses gpus[r % gpus.size()]
  bool tf32 = false, time_algorithms = false;
  spec::Cuda::Attention attention = spec::Cuda::AUTO;
  int Of(int local_rank) const { return gpus[static_cast<size_t>(local_rank) % gpus.size()]; }
  int RanksOn(int gpu, int local_ranks) const;
};
// By spec.cuda. Refuses, with the reason, where there is no CUDA or no such GPU.
absl::StatusOr<CudaChoice> ChooseCuda(const spec::Spec& spec);

// What allocators of this process hold of each GPU. Any thread may use it.
class GpuReserved {
 public:
  void Add(int gpu, Bytes size);
  Bytes Of(int gpu) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, Bytes> reserved_;
};
// How much more of the GPU is in use: the context, kernels and libraries of this process, and whatever others use.
Bytes UsedBeyond(const GpuReserved& reserved, int gpu);

std::unique_ptr<MemorySource> NewGpuSource(int gpu, Bytes limit, GpuReserved& reserved);
std::unique_ptr<MemorySource> NewPinnedSource(int gpu, Bytes limit);

// Called with what is launched; what it returns, where it is anything, with begin and end in seconds of steady_clock, later. note:
// with what a reader of the results is to know of it.
struct CudaObservers {
  using Observed = std::function<void(double start_s, double end_s)>;
  std::function<Observed(const ops::Op& op)> operation;
  std::function<Observed(std::string_view stream, Bytes bytes)> transfer;
  std::function<Observed()> wait;  // of the compute stream: from when it has come to the wait until it goes on
  std::function<void(std::string note)> note;
};
struct CudaRank {
  std::unique_ptr<Device> device;
  std::function<void()> tell_observed;  // waits for all that is being observed; throws what went wrong on the GPU
};
CudaRank NewCudaDevice(CachingAllocator& allocator, CachingAllocator& host, const CudaChoice& choice, int gpu, int rank,
                       CudaObservers observers);

}  // namespace twofold::host
