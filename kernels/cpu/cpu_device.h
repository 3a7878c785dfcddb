// The CPU as a device: its compute stream is the host itself, so an operation is done when Launch returns. Every other
// stream has its own thread, which does its transfers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "core/device/device.h"
#include "kernels/cpu/copy_stream.h"
#include "kernels/cpu/thread_pool.h"

namespace twofold {

class CpuDevice : public Device {
 public:
  // `allocator` and `host` must hand out host memory and outlive the device; without `host` the device has its own host
  // allocator, without a limit. `threads` (1 to 128) is the most that one operation may use, matrix products included.
  // Results are the same in every run with the same number of threads.
  CpuDevice(CachingAllocator& allocator, CachingAllocator& host, int threads);
  CpuDevice(CachingAllocator& allocator, int threads);
  ~CpuDevice() override;

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  int threads() const override { return pool_.threads(); }
  CachingAllocator& allocator() override { return allocator_; }
  CachingAllocator& host_allocator() override { return host_; }
  Stream& compute() override { return *compute_; }
  // The stream's own thread does its transfers; the host runs its operations, after the transfers before them.
  std::unique_ptr<Stream> NewStream(std::string_view name) override;

  void Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) override;
  void Download(const Tensor& src, std::span<std::byte> dst) override;  // dst.size() == src.bytes()
  double Item(const Tensor& scalar, StandIn stand_in) override;

  // From now on every operation takes `factor` times as long, 1 or more: the thread sleeps after it. Sleeps shorter
  // than a millisecond are put off and done together.
  void SlowDown(double factor) { slowdown_ = factor; }

  // Called after every operation, with its begin and end in seconds of std::chrono::steady_clock. Null disables it.
  using Observer = std::function<void(const ops::Op& op, double start_s, double end_s)>;
  void SetObserver(Observer observer) { observer_ = std::move(observer); }
  // Called after every transfer on streams created from now on, by their threads.
  void SetTransferObserver(cpu::CopyStream::Observer observer) { transfer_observer_ = std::move(observer); }

 protected:
  void Run(Stream& stream, const ops::Op& op, Tensor workspace) override;
  void Copy(Stream& stream, Tensor from, Tensor to) override;

 private:
  void SleepFor(double worked_s);
  struct OwnHost;
  CpuDevice(CachingAllocator& allocator, std::unique_ptr<OwnHost> host, int threads);

  CachingAllocator& allocator_;
  const std::unique_ptr<OwnHost> own_host_;
  CachingAllocator& host_;
  cpu::ThreadPool pool_;
  std::unique_ptr<Stream> compute_;
  double slowdown_ = 1, owed_s_ = 0;  // owed: seconds to sleep
  Observer observer_;
  cpu::CopyStream::Observer transfer_observer_;
};

}  // namespace twofold
