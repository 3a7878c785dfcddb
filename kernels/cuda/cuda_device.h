// A GPU as a device: operations are enqueued on CUDA streams, and Launch returns at once.
//
// Several devices, of ranks that are threads of one process, may share a GPU. A device's compute stream and those that NewStream
// makes are CUDA streams of their own; an event of theirs is a CUDA event, waited for by a stream without the host. An event of
// somebody else (a communication thread's) is waited for by the host.
//
// Errors: what CUDA reports, at a launch or later, is thrown as cuda::CudaError by the next call that waits or launches; it
// names the rank, the operation launched last on this device, and its shapes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/device/device.h"
#include "kernels/cuda/memory.h"

namespace twofold {

// How many GPUs there are, and why there is none: "" where there are some.
int GpuCount();
std::string WhyNoGpu();

class CudaDevice : public Device {
 public:
  // `allocator` must hand out memory of GPU `gpu`, `host` pinned memory; both must outlive the device. `rank` is named in errors.
  CudaDevice(CachingAllocator& allocator, CachingAllocator& host, int gpu, int rank);
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
  // Called after every operation while set, with its begin and end on the GPU in seconds of std::chrono::steady_clock; calls come
  // in order, when the host next waits for the compute stream. Null stops it.
  using Observer = std::function<void(const ops::Op& op, double start_s, double end_s)>;
  void SetObserver(Observer observer);
  // Likewise after every transfer on streams made from now on.
  using TransferObserver = std::function<void(std::string_view stream, Bytes bytes, double start_s, double end_s)>;
  void SetTransferObserver(TransferObserver observer);

 protected:
  void Run(Stream& stream, const ops::Op& op, Tensor workspace) override;
  void Copy(Stream& stream, Tensor from, Tensor to) override;

 private:
  class Implementation;
  CachingAllocator &allocator_, &host_;
  const std::unique_ptr<Implementation> implementation_;
};

}  // namespace twofold
