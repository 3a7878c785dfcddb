// One simulated rank: its time lines, and the host that waits on them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/device/device.h"
#include "core/run/clock.h"
#include "core/run/trace.h"
#include "sim/engine.h"
#include "sim/timeline.h"

namespace twofold {

// How the ranks of a run share their machine.
struct SimulatedMachine {
  bool gpu = false;          // the compute stream is its own time line; else it is the host
  double slowdown = 1;       // of CPU operations: threads of all ranks per core, where there are more threads than cores
  bool shared_cores = false; // communication threads take turns with computing ones
  double launch_seconds = 0; // host time per launch, GPU only
  bool real = false;         // tensors hold data
};

class SimulatedRank : public Clock {
 public:
  SimulatedRank(int rank, sim::Engine& engine, const SimulatedMachine& machine)
      : rank_(rank), engine_(engine), machine_(machine) {}

  int rank() const { return rank_; }
  sim::Engine& engine() { return engine_; }
  const SimulatedMachine& machine() const { return machine_; }
  Trace& trace() { return trace_; }

  Seconds Now() override { return Seconds(host_->time()); }
  sim::Timeline& host() { return *host_; }
  sim::Timeline& compute() { return machine_.gpu ? *compute_ : *host_; }

  // The host waits for `point`. `what`: what for, should it never come.
  void HostWait(const sim::TimePointPtr& point, std::function<std::string()> what) {
    engine_.Block(rank_, point, std::move(what));
    host_->WaitFor(point);
  }
  // Lets the simulation catch up with the compute stream, at no cost in virtual time: under REAL data, arithmetic is done
  // when its stream has reached it.
  void CatchUp() {
    if (!compute().blocked()) return;
    engine_.Block(rank_, compute().Record(), [] { return std::string("its compute stream"); });
  }

 private:
  const int rank_;
  sim::Engine& engine_;
  const SimulatedMachine machine_;
  Trace trace_;
  std::shared_ptr<sim::Timeline> host_ = std::make_shared<sim::Timeline>(), compute_ = std::make_shared<sim::Timeline>();
};

// An event is a point on some time line.
class SimulatedPoint : public Event::State {
 public:
  SimulatedPoint(SimulatedRank& rank, sim::TimePointPtr point) : rank_(rank), point_(std::move(point)) {}
  bool Done() override { return point_->known() && point_->time() <= rank_.host().time(); }
  void Wait() override { rank_.HostWait(point_, [] { return std::string("an event"); }); }
  const sim::TimePointPtr& point() const { return point_; }

 private:
  SimulatedRank& rank_;
  sim::TimePointPtr point_;
};

}  // namespace twofold
