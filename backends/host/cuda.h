// GPUs for ranks that are threads of one process. Implemented by with_cuda.cc or no_cuda.cc; CMake chooses.
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

// Why device: CUDA is unavailable: this build lacks it, or this machine has no GPU. "" if it is available.
std::string WhyNoCuda();
absl::Status CudaCannotBeHad();  // with the reason
int GpusHere();
bool GpusAreEmulated();  // GPUs are emulated in this process's memory (mode EMULATED); other libraries do not see them
// Describes one GPU: "GPU 0: NVIDIA H200, ...".
std::string DescribeGpu(int gpu);
std::string NameOfGpu(int gpu);  // the vendor's name
struct GpuFigures {
  std::string software;  // versions
  int64_t memory_bytes = 0, multiprocessors = 0, l2_bytes = 0;
  double clock_hz = 0;  // maximum; 0 if unknown
  double compute_capability = 0;
};
GpuFigures FiguresOfGpu(int gpu);
// The GPU vendor's libraries that this process has loaded, with versions.
std::vector<std::string> DescribeGpuLibraries();
Bytes FreeMemoryOf(int gpu);  // creates the process's context on the GPU, which uses some of the memory

// How the ranks of a process use GPUs.
struct CudaChoice {
  std::vector<int> gpus;  // local rank r uses gpus[r % gpus.size()]
  bool tf32 = false, time_algorithms = false, graphs = false;
  bool fp8 = false, own_fp8 = false;  // products; by our own kernels alone
  spec::Cuda::Attention attention = spec::Cuda::AUTO;
  int Of(int local_rank) const { return gpus[static_cast<size_t>(local_rank) % gpus.size()]; }
  int RanksOn(int gpu, int local_ranks) const;
};
// Reads spec.cuda. Refuses, with the reason, if there is no CUDA or no such GPU.
absl::StatusOr<CudaChoice> ChooseCuda(const spec::Spec& spec);

// How much of each GPU's memory this process's allocators have reserved. Thread-safe.
class GpuReserved {
 public:
  void Add(int gpu, Bytes size);
  Bytes Of(int gpu) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, Bytes> reserved_;
};
// How much more of the GPU's memory is in use: this process's context, kernels and libraries, and anything other
// processes use.
Bytes UsedBeyond(const GpuReserved& reserved, int gpu);

std::unique_ptr<MemorySource> NewGpuSource(int gpu, Bytes limit, GpuReserved& reserved);
std::unique_ptr<MemorySource> NewPinnedSource(int gpu, Bytes limit);

// `operation`, `transfer` and `wait` are called at each launch. If they return a function, it is called later with
// begin and end in seconds of steady_clock. `note` is called with remarks for readers of the results.
struct CudaObservers {
  using Observed = std::function<void(double start_s, double end_s)>;
  std::function<Observed(const ops::Op& op)> operation;
  std::function<Observed(std::string_view stream, Bytes bytes)> transfer;
  std::function<Observed()> wait;  // the compute stream's: from when it reaches the wait until it continues
  std::function<void(std::string note)> note;
};
struct CudaRank {
  std::unique_ptr<Device> device;
  std::function<void()> tell_observed;  // waits for all pending observations; throws GPU errors
};
CudaRank NewCudaDevice(CachingAllocator& allocator, CachingAllocator& host, const CudaChoice& choice, int gpu, int rank,
                       CudaObservers observers);

}  // namespace twofold::host
