// One simulated rank: its time lines, and the host that waits on them.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/simulated/beside.h"
#include "backends/simulated/in_flight.h"
#include "backends/simulated/rank_graph.h"
#include "backends/simulated/ring_copies.h"
#include "core/base/strings.h"
#include "core/device/device.h"
#include "core/run/clock.h"
#include "core/run/trace.h"
#include "sim/engine.h"
#include "sim/timeline.h"

namespace twofold {

// How the ranks of a run share their machine.
struct SimulatedMachine {
  bool gpu = false;  // the compute stream has its own time line; otherwise it is the host
  // Factor on operations' times: threads of all ranks per core if there are more threads than cores; a straggler's
  // factor.
  double slowdown = 1;
  bool shared_cores = false;  // communication threads share cores with computing threads
  // On shared cores: the fraction of a collective's time during computation that the computation loses to it.
  double core_share = 1;
  // How much later the slowest rank arrives, as a fraction of the time that ranks have computed since they last met.
  double waiting = 0;
  double host_seconds = 0;                  // host time before each operation of a CPU
  double launch_seconds = 0;                // host time per launch, GPU only
  double communication_launch_seconds = 0;  // host time to call a collective or to post messages, GPU only
  // GPU only, cuda.graphs: what the host takes for an operation that a graph launches, for a graph, and for each node
  // of it. Their sources: graph_launches.h.
  struct Graphs {
    double operation_seconds, launch_seconds, node_seconds;
  };
  std::optional<Graphs> graphs;
  // GPU only: launches that the compute stream can hold, 0: any number. If it holds so many, the host waits. Assumed:
  // CUDA's streams are observed to hold about as many; NVIDIA does not state a number.
  int pending_launches = 1024;
  // What the framework converts or scales before a communication of this kind and element type: seconds per element.
  struct Moved {
    Communication::Kind before;
    std::vector<std::string> types;  // names of element types; empty: any
    double seconds;
  };
  std::vector<Moved> moved;
  std::optional<RingCopies> ring_copies;
  bool beside = false;           // communication takes a part of the device from what computes beside it (beside.h)
  double speed_spread = 0;       // standard deviation of an operation's time among devices, as a share of it
  double read_back_seconds = 0;  // host time to read an element once the stream is done, GPU only
  bool uploads = false;          // the host's writes take time of the compute stream, GPU only
  bool real = false;             // tensors hold data
  bool graph = false;            // ranks record what they do (rank_graph.h)
  int64_t goal_bytes = 0;        // as a GOAL schedule of at most so many bytes for each rank (goal.h); 0: not
  Bytes staging;                 // host memory held by each group (core/comm/staging.h)
};

class SimulatedRank : public Clock {
 public:
  SimulatedRank(int rank, sim::Engine& engine, const SimulatedMachine& machine)
      : rank_(rank), engine_(engine), machine_(machine) {
    if (!machine.graph && machine.goal_bytes == 0) return;
    graph_ = std::make_unique<RankGraph>(
        rank, *host_, machine.graph,
        machine.goal_bytes > 0 ? std::make_unique<GoalRank>(rank, machine.goal_bytes) : nullptr);
    host_->SetObserver(graph_.get());
    compute_->SetObserver(graph_.get());
    graph_->Name(compute(), "compute");
    graph_->SetBlock([this](const sim::TimePointPtr& point) {
      engine_.Block(rank_, point, [] { return std::string("the last collectives of its GOAL schedule"); });
    });
    trace_.SetGraph(graph_.get());
  }

  int rank() const { return rank_; }
  sim::Engine& engine() { return engine_; }
  const SimulatedMachine& machine() const { return machine_; }
  Trace& trace() { return trace_; }
  CallsInFlight& calls() { return calls_; }
  // Tells the flight record what this rank does next.
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

  Seconds Now() override { return Seconds(now()); }
  double now() const { return host_->time(); }
  sim::Timeline& host() { return *host_; }
  sim::Timeline& compute() { return machine_.gpu ? *compute_ : *host_; }

  // What the device keeps for a graph is launched before anything else happens on the compute stream, and before
  // another stream waits for it.
  void SetFlush(std::function<void()> flush) { flush_ = std::move(flush); }
  void Flush() {
    if (flush_) flush_();
  }

  RankGraph* graph() { return graph_.get(); }  // null: it is not recorded

  // A stream of this rank, beside the host and compute. `name`: as in traces.
  std::shared_ptr<sim::Timeline> NewLine(std::string_view name) {
    auto line = std::make_shared<sim::Timeline>();
    if (graph_ != nullptr) {
      graph_->Name(*line, std::string(name));
      line->SetObserver(graph_.get());
    }
    std::erase_if(lines_, [](const auto& l) { return l.expired(); });
    lines_.push_back(line);
    return line;
  }
  const std::vector<std::weak_ptr<sim::Timeline>>& lines() const { return lines_; }  // some may have expired
  double met() const { return met_; }  // when this rank last waited for others; only kept if machine().waiting > 0

  // When the slowest of the ranks that do the same as this one reaches the point where this one is now. Ranks are
  // considered together again whenever one has waited for the others.
  double SlowestIsHere() const { return host_->time() + machine_.waiting * (host_->time() - met_); }
  void Met() { met_ = host_->time(); }

  // Ranks of synchronous training begin a step together: how far they were apart before counts no more.
  void BeginsStep() {
    if (machine_.speed_spread == 0) return;
    host_->Together();
    if (machine_.gpu) compute_->Together();
  }

  // The host waits for `point`. `what` says what it waits for, should the point never come. `stream` is the trace name
  // of the stream that the point belongs to, if the trace should show what a CPU's compute stream waits for.
  void HostWait(const sim::TimePointPtr& point, const std::function<std::string()>& what,
                std::string_view stream = {}) {
    engine_.Block(rank_, point, what);
    host_->WaitFor(point, stream);
  }
  Communicating& communicating() { return communicating_; }

  // What a rank does briefly (Device::Briefly), others that it stands for may finish sooner, or do without. Whether
  // what it does now is such.
  bool is_brief() const { return brief_; }
  void SetBrief(bool brief) { brief_ = brief; }
  // So many seconds of its time were such: the others may be so much sooner (SimulatedWorld::late). `late` is told.
  void TookBriefly(double seconds) {
    if (late_) late_(seconds);
  }
  void SetLate(std::function<void(double seconds)> late) { late_ = std::move(late); }

  // ---- Faults (faults.h) ----
  // Its operations take longer until then.
  struct Slowness {
    double factor = 1, until = std::numeric_limits<double>::infinity();
  };
  void SlowDown(const Slowness& slow) { slow_.push_back(slow); }
  // The factor on the time of an operation that is launched now.
  double slowdown() const {
    double factor = machine_.slowdown;
    for (const Slowness& s : slow_) factor *= now() < s.until ? s.factor : 1;
    return factor;
  }
  // A fault has made it slow, and it is still.
  bool is_slowed() const {
    return std::any_of(slow_.begin(), slow_.end(), [this](const Slowness& s) { return now() < s.until; });
  }
  // Communication that would begin within this time begins at its end.
  struct Outage {
    double from, to;
  };
  void LinkIsDown(const Outage& outage) { outages_.push_back(outage); }
  double LinkIsUpFrom(double time) const {
    for (bool moved = true; moved;) {
      moved = false;
      for (const Outage& o : outages_) {
        if (o.from <= time && time < o.to) time = o.to, moved = true;
      }
    }
    return time;
  }

  // Goes on at `time` in a new generation of members: what its compute stream still waits for never comes.
  void GoesOn(double time) {
    host_->NotBefore(time);
    if (machine_.gpu) compute_->Reset(time);
    communicating_ = {};
    met_ = host_->time();
  }
  // Lets the simulation catch up with the compute stream, at no cost in virtual time: with REAL data, arithmetic is
  // done when its stream reaches it.
  void CatchUp() {
    if (!compute().blocked()) return;
    engine_.Block(rank_, compute().Record(), [this] { return Behind("its compute stream"); });
  }
  // Returns "its compute stream, behind all_reduce ...": a stream or event can only wait for calls in flight.
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
  Communicating communicating_;
  double met_ = 0;
  std::vector<Slowness> slow_;
  std::vector<Outage> outages_;
  std::vector<std::weak_ptr<sim::Timeline>> lines_;
  std::shared_ptr<sim::Timeline> host_ = std::make_shared<sim::Timeline>(),
                                 compute_ = std::make_shared<sim::Timeline>();
  std::unique_ptr<RankGraph> graph_;
  std::function<void()> flush_;
  std::function<void(double)> late_;
  bool brief_ = false;
};

// An event is a point on a time line; for a communication's event, `stream` is the stream's name in traces.
class SimulatedPoint : public Event::State {
 public:
  SimulatedPoint(SimulatedRank& rank, sim::TimePointPtr point, std::string_view stream = {})
      : rank_(rank), point_(std::move(point)), stream_(stream) {}
  bool Done() override { return point_->known() && point_->time() <= rank_.host().time(); }
  void Wait() override {
    rank_.HostWait(point_, [this] { return rank_.Behind("an event"); });
  }
  const sim::TimePointPtr& point() const { return point_; }
  std::string_view stream() const { return stream_; }

 private:
  SimulatedRank& rank_;
  sim::TimePointPtr point_;
  const std::string_view stream_;
};

}  // namespace twofold
