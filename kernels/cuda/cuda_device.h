// A GPU as a device: operations are enqueued on CUDA streams, and Launch returns at once.
//
// Several devices may share a GPU if their ranks are threads of one process. A device's compute stream and the streams
// of NewStream are separate CUDA streams. An event of these streams is a CUDA event, and a stream waits for it without
// the host. For any other event (of a communication thread) the host waits (streams.h).
//
// The host waits only in Synchronize, Download, Item and Event::Wait. Uploads go through pinned memory of the device, a
// few MiB that no ledger counts. The device owns the data as soon as `fill` has written it; the host waits for an
// earlier upload only if all of the pinned memory is in flight.
//
// With Options::graphs, operations of the compute stream are launched together when the stream is waited for, waits, or
// is read, or when there are many. An observed operation is launched alone, after those before it.
//
// Errors that CUDA reports, at a launch or later, are thrown as cuda::CudaError by the next call that waits or
// launches. The message names the rank, the operation launched last on this device, and its dimensions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "kernels/cuda/library_attention.h"
#include "kernels/cuda/memory.h"

namespace twofold {

// The number of GPUs for which this build has kernels, and the reason if there are none ("" if there are some).
int GpuCount();
std::string WhyNoGpu();

struct GpuMemory {
  Bytes free, total;
};
// The current values of cudaMemGetInfo, with this process's context created. Throws cuda::CudaError.
GpuMemory MemoryOf(int gpu);
// "NVIDIA H200", "CUDA 13.0 (driver for 13.1)", "compute capability 9.0, 132 multiprocessors, 139.8 GiB".
struct GpuFacts {
  std::string name, software, sizes;
  int64_t memory_bytes, multiprocessors, l2_bytes;
  double clock_hz;            // maximum clock of its multiprocessors; 0 if unknown
  double compute_capability;  // 9.0
};
GpuFacts FactsOfGpu(int gpu);
// The NVIDIA libraries of this build, as loaded: "cuBLASLt 13.0.2", "cuDNN 9.19.0"; or why one is missing.
std::vector<std::string> GpuLibraries();
// Why cuDNN's attention is unavailable for every shape; "" if it is available.
std::string WhyNoCudnnAttention();
// Why AttentionKernels::kHopper is unavailable on a GPU; "" if it is available. Throws cuda::CudaError.
std::string WhyNoHopperAttention(int gpu);
// Why a GPU widens FP8 codes instead of multiplying them as they are; "" if it does not. Throws cuda::CudaError.
std::string WhyFp8IsWidened(int gpu);

class CudaDevice : public Device {
 public:
  // `allocator` must allocate memory of GPU `gpu`, and `host` pinned memory; both must outlive the device. `rank`
  // appears in errors.
  struct Options {
    bool tf32 = false;  // f32 products use 10 bits of their operands' mantissas
    cuda::AttentionKernels attention = cuda::AttentionKernels::kAuto;
    bool time_algorithms = false;  // products use the fastest algorithm that cuBLASLt suggests instead of the first
    bool own_fp8 = false;          // products in FP8 run on our own kernels alone
    bool graphs = false;  // operations of the compute stream that repeat are launched by CUDA graphs (graphs.h)
  };
  // Throws cuda::CudaError; also if the GPU cannot do what the options request.
  CudaDevice(CachingAllocator& allocator, CachingAllocator& host, int gpu, int rank, const Options& options);
  CudaDevice(CachingAllocator& allocator, CachingAllocator& host, int gpu, int rank)
      : CudaDevice(allocator, host, gpu, rank, Options()) {}
  ~CudaDevice() override;

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  int threads() const override { return 1; }
  CachingAllocator& allocator() override { return allocator_; }
  CachingAllocator& host_allocator() override { return host_; }
  Stream& compute() override;
  std::unique_ptr<Stream> NewStream(std::string_view name) override;

  void Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) override;
  void Download(const Tensor& src, std::span<std::byte> dst) override;  // dst.size() == src.bytes()
  double Item(const Tensor& scalar, StandIn stand_in) override;

  int gpu() const;
  // The observer is called with every operation that is launched. If it returns a function, that function is later
  // called with the operation's begin and end on the GPU, in seconds of std::chrono::steady_clock. These calls are made
  // in order, when the host next waits in Download or Item, and at the latest in TellObserved. (The operation itself is
  // not kept until then: that would keep its tensors alive.) Null stops observing.
  using Observed = std::function<void(double start_s, double end_s)>;
  using Observer = std::function<Observed(const ops::Op& op)>;
  void SetObserver(Observer observer);
  // The same for every transfer on a stream made by NewStream.
  using TransferObserver = std::function<Observed(std::string_view stream, Bytes bytes)>;
  void SetTransferObserver(TransferObserver observer);
  // The same for every wait of the compute stream for an event that has not happened yet: from the time the stream
  // reaches the wait until it continues.
  using WaitObserver = std::function<Observed()>;
  void SetWaitObserver(WaitObserver observer);
  // `note` is called while operations are launched, with messages for readers of their results: whose kernels attention
  // and products in FP8 ran on.
  void SetNote(std::function<void(std::string note)> note);
  // What graphs have launched so far. All 0 without Options::graphs.
  struct GraphCounts {
    int64_t graphs, replays, replayed, one_by_one, updates;  // cuda::Graphs::Counts
    std::string why_not;                                     // "" if all sections could be captured and updated
  };
  GraphCounts graph_counts() const;
  // Waits for everything that is being observed, and reports it.
  void TellObserved();

 protected:
  void Run(Stream& stream, const ops::Op& op, Tensor workspace) override;
  void Copy(Stream& stream, Tensor from, Tensor to) override;

 private:
  class Implementation;
  CachingAllocator &allocator_, &host_;
  const std::unique_ptr<Implementation> implementation_;
};

}  // namespace twofold
