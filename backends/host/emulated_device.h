// A device that computes nothing and sleeps for as long as a cost model says.
//
// Its compute stream is the host, as on a CPU: a launch returns when the operation is over. Times add up on a time line
// of the host. A thread that woke up late, or was busy with other things meanwhile, sleeps less afterwards, so that the
// line keeps its pace on a machine with fewer cores than ranks. Lateness beyond kMostLate is not made up for.
//
// Other streams have their own time lines and transfer no data. Work given to them takes its time there, starting when
// the host has issued it and everything it waits for is over.
//
// Memory is real, since communication needs it, but only communication and WriteBytes ever write to it. Tensors count
// as holding no values, so Item returns its stand-in and uploads do not call `fill`.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "backends/host/costs.h"
#include "core/device/cost_model.h"
#include "core/device/device.h"
#include "kernels/cpu/cpu_device.h"

namespace twofold::host {

// An event that, once it has happened, knows when it happened.
class TimedEvent : public Event::State {
 public:
  virtual double time() const = 0;  // in SteadyNow()'s time
};

class EmulatedDevice : public Device {
 public:
  static constexpr double kMostLate = 0.05;  // seconds
  static constexpr double kShort = 100e-6;   // no sleep yet for deadlines closer than this

  // `check` is called while it sleeps; it may throw.
  EmulatedDevice(CachingAllocator& allocator, CachingAllocator& host, const Costs& costs, int threads,
                 std::function<void()> check);
  ~EmulatedDevice() override;

  Holds holds() const override { return Holds::kBytes; }
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  int threads() const override { return threads_; }
  CachingAllocator& allocator() override { return allocator_; }
  CachingAllocator& host_allocator() override { return host_; }
  Stream& compute() override;
  std::unique_ptr<Stream> NewStream(std::string_view name) override;
  void Upload(Tensor&, absl::FunctionRef<void(std::span<std::byte>)>) override {}
  void Download(const Tensor& src, std::span<std::byte> dst) override;
  void WriteBytes(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) override;
  void ReadBytes(const Tensor& src, std::span<std::byte> dst) override;
  double Item(const Tensor& scalar, StandIn stand_in) override;

  // Sleeps until everything launched is over. Returns when that was, or would have been if the thread had been on time.
  double CatchUp();
  // The host was busy with something else until `time`, of SteadyNow(), or is going to be: operations start later.
  void NotBefore(double time);

  // Operations launched from now on take `factor` times as long.
  void SlowDown(double factor) { slowdown_ = factor; }
  void SetObserver(CpuDevice::Observer observer) { observer_ = std::move(observer); }
  // Called when a transfer is issued, for streams created from now on.
  void SetTransferObserver(cpu::CopyStream::Observer observer) { transfer_observer_ = std::move(observer); }

 protected:
  void Run(Stream& stream, const ops::Op& op, Tensor workspace) override;
  void Copy(Stream& stream, Tensor from, Tensor to) override;

 private:
  class HostStream;
  class SideStream;
  class TimeLine;
  CachingAllocator &allocator_, &host_;
  const std::unique_ptr<CostModel> costs_;
  const HostLink link_;
  const int threads_;
  double slowdown_ = 1;
  const std::unique_ptr<TimeLine> line_;
  const std::unique_ptr<HostStream> compute_;
  CpuDevice::Observer observer_;
  cpu::CopyStream::Observer transfer_observer_;
};

}  // namespace twofold::host
