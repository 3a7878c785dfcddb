// A device that sleeps for as long as a cost model says, and computes nothing.
//
// Its compute stream is the host, like a CPU's: a launch returns when the operation is over. Times add up on a time line of
// the host; a thread that was woken late, or had to do other things meanwhile, sleeps less afterwards, so that the line keeps
// its pace on a machine with fewer cores than ranks. What is more than kMostLate late is not made up for.
//
// Other streams have time lines of their own and transfer nothing: what they are given takes its time there, from when the
// host has come to it and all that they wait for is over.
//
// Memory is real, since communication needs it, and nothing is ever written to it but by communication; tensors count as
// holding no data, so Item gives its stand-in and uploads do not ask for what they upload.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "backends/host/costs.h"
#include "core/device/cost_model.h"
#include "core/device/device.h"
#include "kernels/cpu/cpu_device.h"

namespace twofold::host {

// An event that knows when it was, once it has happened.
class TimedEvent : public Event::State {
 public:
  virtual double time() const = 0;  // SteadyNow() of it
};

class EmulatedDevice : public Device {
 public:
  static constexpr double kMostLate = 0.05;   // seconds
  static constexpr double kShort = 100e-6;    // what lies less ahead is not slept for yet

  // `check` is called while it sleeps; it may throw.
  EmulatedDevice(CachingAllocator& allocator, CachingAllocator& host, const Costs& costs, int threads, std::function<void()> check);
  ~EmulatedDevice() override;

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  int threads() const override { return threads_; }
  CachingAllocator& allocator() override { return allocator_; }
  CachingAllocator& host_allocator() override { return host_; }
  Stream& compute() override;
  std::unique_ptr<Stream> NewStream(std::string_view name) override;
  void Upload(Tensor&, absl::FunctionRef<void(std::span<std::byte>)>) override {}
  void Download(const Tensor& src, std::span<std::byte> dst) override;
  double Item(const Tensor& scalar, StandIn stand_in) override;

  // Sleeps until all that was launched is over; when that was, or would have been had the thread been in time.
  double CatchUp();

  void SetObserver(CpuDevice::Observer observer) { observer_ = std::move(observer); }
  // Called for every transfer on streams made from now on, when it is given to its stream.
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
  const std::unique_ptr<TimeLine> line_;
  const std::unique_ptr<HostStream> compute_;
  CpuDevice::Observer observer_;
  cpu::CopyStream::Observer transfer_observer_;
};

}  // namespace twofold::host
