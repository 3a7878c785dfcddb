// A device that takes as long as its cost model says.
//
// Under SYMBOLIC data nothing is computed; under REAL data the arithmetic is that of kernels/cpu, so that losses equal
// the in-memory fabric's bit for bit. The workspace rules are those of the device that is modelled.
//
// Assumes: operations of one rank run one at a time, each as long as its cost model says, with the same time of the host
// before each; transfers go on beside them and take nothing from them. Ignores: caches warmed by the operation before, clock
// changes under load, beyond what the cost model knows.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/host/costs.h"
#include "backends/simulated/rank.h"
#include "core/device/cost_model.h"
#include "core/device/device.h"
#include "kernels/cpu/cpu_device.h"

namespace twofold {

class SimulatedDevice : public Device {
 public:
  // The cost model may be shared by ranks. `threads` is what one operation may use, as on the real device.
  SimulatedDevice(SimulatedRank& rank, CachingAllocator& allocator, CachingAllocator& host, CostModel& costs,
                  const host::HostLink& link, int threads);
  ~SimulatedDevice() override;

  DeviceKind kind() const override { return rank_.machine().gpu ? DeviceKind::kCuda : DeviceKind::kCpu; }
  int threads() const override { return threads_; }
  CachingAllocator& allocator() override { return allocator_; }
  CachingAllocator& host_allocator() override { return host_; }
  Stream& compute() override { return *compute_; }
  std::unique_ptr<Stream> NewStream(std::string_view name) override;
  void Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) override;
  void Download(const Tensor& src, std::span<std::byte> dst) override;
  double Item(const Tensor& scalar, StandIn stand_in) override;

  // RankContext::WhenReached: an idle compute stream is where the host is.
  void WhenReached(std::function<void(Seconds)> fn);
  // Of all operations' time together, as a share of it. Where the cost model's kernels are independent, what they are off
  // by adds up as squares, kernel by kernel; calls of one kernel are off alike. 1, 1 before the first operation.
  Range uncertainty() const;
  // Kernels and dimensions whose time lies outside what calibration has seen, with how often they ran.
  using Extrapolated = std::map<std::string, std::map<std::array<int64_t, 3>, int64_t>, std::less<>>;
  const Extrapolated& extrapolated() const { return extrapolated_; }

 protected:
  void Run(Stream& stream, const ops::Op& op, Tensor workspace) override;
  void Copy(Stream& stream, Tensor from, Tensor to) override;

 private:
  class Arithmetic;
  void Charge(Stream& stream, const ops::Op& op);
  void ReadBack();  // the host waits for the compute stream, and for what comes back

  SimulatedRank& rank_;
  CachingAllocator &allocator_, &host_;
  CostModel& costs_;
  const host::HostLink link_;
  const int threads_;
  std::unique_ptr<Arithmetic> arithmetic_;  // REAL only
  std::unique_ptr<Stream> compute_;
  struct Spread { double below = 0, above = 0; };  // seconds
  double seconds_ = 0;
  absl::flat_hash_map<const char*, size_t> places_;  // in spreads_, by kernel: names are literals
  std::vector<Spread> spreads_;
  Extrapolated extrapolated_;
};

}  // namespace twofold
