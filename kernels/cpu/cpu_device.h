// The CPU as a device: every stream is the host itself, so an operation is done when Launch returns.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "core/device/device.h"
#include "kernels/cpu/thread_pool.h"

namespace twofold {

class CpuDevice : public Device {
 public:
  // `allocator` must hand out host memory and outlive the device. `threads` (1 to 128) is what one operation
  // may use, products included. Results are the same in every run with the same number of threads.
  CpuDevice(CachingAllocator& allocator, int threads);
  ~CpuDevice() override;

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  int threads() const override { return pool_.threads(); }
  CachingAllocator& allocator() override { return allocator_; }
  Stream& compute() override { return *compute_; }
  // Also the host itself: what is launched on it runs at once. `name` is not used.
  std::unique_ptr<Stream> NewStream(std::string_view name) override;

  void Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) override;
  void Download(const Tensor& src, std::span<std::byte> dst) override;  // dst.size() == src.bytes()
  double Item(const Tensor& scalar, StandIn stand_in) override;

  // Called after every operation while set, with its begin and end in seconds of std::chrono::steady_clock.
  // Null stops it.
  using Observer = std::function<void(const ops::Op& op, double start_s, double end_s)>;
  void SetObserver(Observer observer) { observer_ = std::move(observer); }

 protected:
  void Run(Stream& stream, const ops::Op& op, Tensor workspace) override;

 private:
  CachingAllocator& allocator_;
  cpu::ThreadPool pool_;
  std::unique_ptr<Stream> compute_;
  Observer observer_;
};

}  // namespace twofold
