// A GPU as a device: operations are enqueued on CUDA streams, and Launch returns at once.
//
// Several devices, of ranks that are threads of one process, may share a GPU. A device's compute stream and those that NewStream
// makes are CUDA streams of their own; an event of theirs is a CUDA event, waited for by a stream without the host. An event of
// somebody else (a communication thread's) is waited for by the host (streams.h).
//
// The host waits in Synchronize, Download, Item and Event::Wait alone. Uploads go through pinned memory of the device's own, a few
// MiB that no ledger counts: what `fill` has written is the device's from then on, and the host waits for an earlier upload only
// where all of that memory is on its way.
//
// Errors: what CUDA reports, at a launch or later, is thrown as cuda::CudaError by the next call that waits or launches; it
// names the rank, the operation launched last on this device, and its dimensions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "kernels/cuda/library_attention.h"
#include "kernels/cuda/memory.h"

namespace twofold {

// How many GPUs there are that this build has kernels for, and why there is none: "" where there are some.
int GpuCount();
std::string WhyNoGpu();

struct GpuMemory {
  Bytes free, total;
};
// As cudaMemGetInfo has it now, once this process's context exists there. Throws cuda::CudaError.
GpuMemory MemoryOf(int gpu);
// "NVIDIA H200", "CUDA 13.0 (driver for 13.1)", "compute capability 9.0, 132 multiprocessors, 139.8 GiB".
struct GpuFacts {
  std::string name, software, sizes;
  int64_t memory_bytes, multiprocessors, l2_bytes;
  double clock_hz;  // the highest of its multiprocessors; 0: not told
};
GpuFacts FactsOfGpu(int gpu);
// Of the libraries of NVIDIA that this build uses, as they are loaded: "cuBLASLt 13.0.2", "cuDNN 9.19.0"; or why one is not there.
std::vector<std::string> GpuLibraries();
// Why cuDNN's attention cannot be had, of any shape; "" where it can.
std::string WhyNoCudnnAttention();

class CudaDevice : public Device {
 public:
  // `allocator` must hand out memory of GPU `gpu`, `host` pinned memory; both must outlive the device. `rank` is named in errors.
  struct Options {
    bool tf32 = false;             // products of f32 read 10 bits of their operands' fractions
    cuda::AttentionKernels attention = cuda::AttentionKernels::kAuto;
    bool time_algorithms = false;  // products keep the fastest of the algorithms that cuBLASLt suggests, not the first
  };
  // Throws cuda::CudaError.
  CudaDevice(CachingAllocator& allocator, CachingAllocator& host, int gpu, int rank, const Options& options);
  CudaDevice(CachingAllocator& allocator, CachingAllocator& host, int gpu, int rank) : CudaDevice(allocator, host, gpu, rank, Options()) {}
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
  // Called with every operation that is launched. What it returns, where it is anything, is called with the operation's begin and end
  // on the GPU, in seconds of std::chrono::steady_clock: in order, when the host next waits in Download or Item, at the latest by
  // TellObserved. (An operation is not kept until then: that would keep its tensors.) Null stops it.
  using Observed = std::function<void(double start_s, double end_s)>;
  using Observer = std::function<Observed(const ops::Op& op)>;
  void SetObserver(Observer observer);
  // Likewise with every transfer on a stream that NewStream has made.
  using TransferObserver = std::function<Observed(std::string_view stream, Bytes bytes)>;
  void SetTransferObserver(TransferObserver observer);
  // Likewise with every wait of the compute stream for what had not happened yet: from when the stream has come to it until it goes on.
  using WaitObserver = std::function<Observed()>;
  void SetWaitObserver(WaitObserver observer);
  // Called, while operations are launched, with what a reader of their results is to know of them: whose kernels attention ran on.
  void SetNote(std::function<void(std::string note)> note);
  // Waits for all that is being observed, and tells it.
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
