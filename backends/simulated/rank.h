// One simulated rank: its time lines, and the host that waits on them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "backends/simulated/in_flight.h"
#include "core/base/strings.h"
#include "core/device/device.h"
#include "core/run/clock.h"
#include "core/run/trace.h"
#include "sim/engine.h"
#include "sim/timeline.h"

namespace twofold {

// How the ranks of a run share their machine.
struct SimulatedMachine {
  bool gpu = false;          // the compute stream is its own time line; else it is the host
  double slowdown = 1;       // of operations: threads of all ranks per core, where there are more threads than cores; a straggler's factor
  bool shared_cores = false; // communication threads take turns with computing ones
  double core_share = 1;     // of a collective's time beside computing: what the computing loses to it, on shared cores
  double waiting = 0;        // how much later the slowest rank comes, as a share of what ranks computed since they met
  double host_seconds = 0;   // of the host, before each of a CPU's operations
  double launch_seconds = 0; // host time per launch, GPU only
  double read_back_seconds = 0;  // of the host, to read an element when the stream is done, GPU only
  bool uploads = false;      // what the host writes takes the compute stream's time, GPU only
  bool real = false;         // tensors hold data
  Bytes staging;             // that each group holds of the host's memory (core/comm/staging.h)
};

class SimulatedRank : public Clock {
 public:
  SimulatedRank(int rank, sim::Engine& engine, const SimulatedMachine& machine)
      : rank_(rank), engine_(engine), machine_(machine) {}

  int rank() const { return rank_; }
  sim::Engine& engine() { return engine_; }
  const SimulatedMachine& machine() const { return machine_; }
  Trace& trace() { return trace_; }
  CallsInFlight& calls() { return calls_; }
  // What this rank does next, for the flight record.
  void Communicates(const host::Call& call) {
    if (engine_.record() == nullptr) return;
    const Communication& c = call.communication;
    sim::FlightRecord::Call next = {.counted = "split", .sequence = call.sequence};
    if (!call.split) {
      next.counted = c.is_collective() ? "collective" : "message";
      next.operation = KindName(c.kind);
      next.bytes = c.bytes().value();
    }
    engine_.record()->Communicated(rank_, next, *call.group);
  }
  void Launches(std::string_view operation) {
    if (engine_.record() != nullptr) engine_.record()->Launched(rank_, operation);
  }

  Seconds Now() override { return Seconds(host_->time()); }
  sim::Timeline& host() { return *host_; }
  sim::Timeline& compute() { return machine_.gpu ? *compute_ : *host_; }

  // When the slowest of ranks that do what this one does is where this one is now. Ranks are together whenever one has
  // waited for the others.
  double SlowestIsHere() const { return host_->time() + machine_.waiting * (host_->time() - met_); }
  void Met() { met_ = host_->time(); }

  // The host waits for `point`. `what`: what for, should it never come. `stream`: whose point it is, as traces name it, where the
  // trace is to tell what a CPU's compute stream stands still for.
  void HostWait(const sim::TimePointPtr& point, const std::function<std::string()>& what, std::string_view stream = {}) {
    engine_.Block(rank_, point, what);
    host_->WaitFor(point, stream);
  }
  // Lets the simulation catch up with the compute stream, at no cost in virtual time: under REAL data, arithmetic is done
  // when its stream has reached it.
  void CatchUp() {
    if (!compute().blocked()) return;
    engine_.Block(rank_, compute().Record(), [this] { return Behind("its compute stream"); });
  }
  // "its compute stream, behind all_reduce ...": a stream or event can only wait for what is in flight.
  std::string Behind(std::string_view what) const {
    const std::string calls = calls_.FirstOfEach();
    return calls.empty() ? std::string(what) : StrCat(what, ", behind ", calls);
  }

 private:
  const int rank_;
  sim::Engine& engine_;
  const SimulatedMachine machine_;
  Trace trace_;
  CallsInFlight calls_;
  double met_ = 0;
  std::shared_ptr<sim::Timeline> host_ = std::make_shared<sim::Timeline>(), compute_ = std::make_shared<sim::Timeline>();
};

// An event is a point on some time line: that of `stream`, as traces name it, where it is a communication's.
class SimulatedPoint : public Event::State {
 public:
  SimulatedPoint(SimulatedRank& rank, sim::TimePointPtr point, std::string_view stream = {})
      : rank_(rank), point_(std::move(point)), stream_(stream) {}
  bool Done() override { return point_->known() && point_->time() <= rank_.host().time(); }
  void Wait() override { rank_.HostWait(point_, [this] { return rank_.Behind("an event"); }); }
  const sim::TimePointPtr& point() const { return point_; }
  std::string_view stream() const { return stream_; }

 private:
  SimulatedRank& rank_;
  sim::TimePointPtr point_;
  const std::string_view stream_;
};

}  // namespace twofold
