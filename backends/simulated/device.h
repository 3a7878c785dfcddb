// A device whose operations take as long as its cost model says.
//
// With SYMBOLIC data nothing is computed. With REAL data the arithmetic is that of kernels/cpu, so losses equal the
// in-memory fabric's bit for bit. The workspace rules are those of the modelled device.
//
// Assumes: operations of one rank run one at a time. Each takes as long as its cost model says and is preceded by the
// same host time. Transfers run beside them and do not slow them down. Ignores: caches warmed by the previous
// operation, and clock changes under load, unless the cost model includes them. With cuda.graphs: graph_launches.h.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/host/costs.h"
#include "backends/simulated/graph_launches.h"
#include "backends/simulated/rank.h"
#include "core/device/cost_model.h"
#include "core/device/device.h"
#include "kernels/cpu/cpu_device.h"

namespace twofold {

class SimulatedDevice : public Device {
 public:
  // Ranks may share the cost model. `threads` is what one operation may use, as on the real device.
  SimulatedDevice(SimulatedRank& rank, CachingAllocator& allocator, CachingAllocator& host, CostModel& costs,
                  const host::HostLink& link, int threads);
  ~SimulatedDevice() override;

  Holds holds() const override { return rank_.machine().real ? Holds::kValues : Holds::kNothing; }
  DeviceKind kind() const override { return rank_.machine().gpu ? DeviceKind::kCuda : DeviceKind::kCpu; }
  int threads() const override { return threads_; }
  CachingAllocator& allocator() override { return allocator_; }
  CachingAllocator& host_allocator() override { return host_; }
  Stream& compute() override { return *compute_; }
  std::unique_ptr<Stream> NewStream(std::string_view name) override;
  void Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) override;
  void Download(const Tensor& src, std::span<std::byte> dst) override;
  double Item(const Tensor& scalar, StandIn stand_in) override;

  // RankContext::WhenReached. An idle compute stream is at the host's time.
  void WhenReached(std::function<void(Seconds)> fn);
  // The uncertainty of all operations' total time, as a fraction of it. If the cost model's kernels are independent,
  // errors of different kernels add up as squares; errors of one kernel's calls are fully correlated. 1, 1 before the
  // first operation.
  Range uncertainty() const;
  void Briefly(absl::FunctionRef<void()> work) override;
  std::optional<double> Difference(const ops::Op& a, const ops::Op& b) override;
  // Kernels and dimensions whose time lies outside the calibrated range, with the number of times they ran.
  using Extrapolated = std::map<std::string, std::map<std::array<int64_t, 3>, int64_t>, std::less<>>;
  const Extrapolated& extrapolated() const { return sums_.extrapolated; }

  struct Spread {  // seconds
    double below = 0, above = 0;
  };
  // Over all operations so far.
  struct Sums {
    double seconds = 0;
    std::vector<Spread> spreads = {};
    Extrapolated extrapolated = {};
  };
  const Sums& sums() const { return sums_; }
  // The rank goes on in a new generation: launches of the old one, whose ends never come, fill no places.
  void GoesOn() { marks_.clear(), launched_ = 0; }
  int64_t settling() const;                        // LaunchSections::settling; 0 without cuda.graphs
  void Repeat(const Sums& before, int64_t times);  // adds `times` times what was added since

 protected:
  void Run(Stream& stream, const ops::Op& op, Tensor workspace) override;
  void Copy(Stream& stream, Tensor from, Tensor to) override;

 private:
  class Arithmetic;
  void Charge(Stream& stream, const ops::Op& op, const Tensor& workspace);
  // An operation as the stream takes it.
  struct Launched {
    double seconds, host_seconds;  // of the stream; of the host, if launched alone
    double deviation;              // sim::Apart
    std::string_view name, label, shape;
  };
  void Issue(Stream& stream, const Launched& launch);
  void FlushGraphs();
  void ReadBack();                    // the host waits for the compute stream and for the read-back
  void WaitForPlace(Stream& stream);  // as SimulatedMachine::pending_launches

  SimulatedRank& rank_;
  CachingAllocator &allocator_, &host_;
  CostModel& costs_;
  const host::HostLink link_;
  const int threads_;
  std::unique_ptr<Arithmetic> arithmetic_;  // REAL only
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<GraphLaunches<Launched>> graphs_;  // cuda.graphs only
  int launched_ = 0;                                 // on the compute stream, since the last of marks_
  std::deque<sim::TimePointPtr> marks_ = {};         // the ends of every few launches, the oldest first
  absl::flat_hash_map<const char*, size_t> places_;  // index into spreads, by kernel; the names are string literals
  Sums sums_;
  double taken_ = 0;  // seconds of all operations and transfers so far, of their streams and of the host
};

}  // namespace twofold
