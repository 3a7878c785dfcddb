// The simulation: ranks as actors on SimGrid's virtual clock, and transfers as flows that share the links.
//
// One engine a process (SimGrid's rule), used by one thread; everything here runs in turn, never at once, so nothing is
// locked. A rank's actor runs ahead of the clock as far as its own time lines are known and blocks only on a TimePoint
// that others decide. What it starts never lies before the clock.
//
// What is to happen at a time is an event of a queue of ours, in the order of time, then of asking: SimGrid's clock runs to the
// next. Under `solve_flows` flows are shared by flows.h; else, and where schedules are loose, they are SimGrid's.
//
// Assumes: what topologies and schedules state. Ignores: CPU time of the network stack, packet effects, congestion control
// (flows take their max-min share at once).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/errors.h"
#include "core/base/units.h"
#include "sim/collectives/schedule.h"
#include "sim/flight_record.h"
#include "sim/flows.h"
#include "sim/timeline.h"
#include "topologies/routing.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

class Platform;

class Engine {
 public:
  struct Options {
    Bytes stack{256 << 10};          // of each actor; ranks that compute need 8 MiB
    bool many_actors = false;        // more than some thousands of ranks, or of messages at once
    FlightRecord* record = nullptr;  // told whose turn it is; outlives the engine
    RoutingOptions routing;
    bool solve_flows = false;        // not where schedules are loose or routing is adaptive: flows would not see one another
  };
  // The topology must outlive the engine.
  Engine(const Topology& topology, const Options& options);
  ~Engine();

  const Topology& topology() const { return topology_; }
  Router& router() { return router_; }  // of all that is in flight, whoever computes it
  FlightRecord* record() const { return record_; }  // null: nobody watches

  // Before Run. `body` may throw; the first failure ends every rank.
  void AddRank(int rank, std::function<void()> body);
  // Runs to the end; OK, or the first cause.
  absl::Status Run();

  double now() const;  // SimGrid's clock

  // For rank actors: returns when `point` is known. Throws Deadlock when that can never be, and what ThrowIfFailed throws.
  // `what` tells what the rank waits for; it is asked for only then.
  void Block(int rank, const TimePointPtr& point, const std::function<std::string()>& what);

  // Runs `schedule` among `endpoints` from `start` on (not before now). A flow takes the paths that the router chooses as
  // its phase begins, its bytes and its rate divided by their shares; it is done when the last part is. `done` is told when
  // each of the endpoints has finished; it is not called once the run has failed, nor is a timer: whom they would tell may
  // be gone. A pair between which no route is left ends the run.
  // `ended`, where there is one, is told of each endpoint by its place as it finishes, at that time.
  using Ended = std::function<void(size_t place, double time)>;
  void Transfer(std::shared_ptr<const Schedule> schedule, std::vector<int> endpoints, double start,
                std::function<void(const std::vector<double>& finish)> done, Ended ended = nullptr);

  // Copies of one schedule, each among its own endpoints, that always begin together, with their flows solved; for engines that
  // solve flows. May be begun many times.
  struct Copy { std::shared_ptr<const Schedule> schedule; const std::vector<int>& endpoints; };
  class Course;
  std::shared_ptr<const Course> Chart(std::span<const Copy> copies);  // throws NoRoute
  // As Transfer; `done` gets the endpoints' times copy by copy, or one where all are equal. Copies whose phases have the same
  // latencies go on to the next together, when the last of them has ended the phase; `apart`: the most seconds by which one of
  // them ended it before.
  using Arrived = std::function<void(const std::vector<double>& finish, double apart)>;
  void Run(std::shared_ptr<const Course> course, double start, Arrived done);
  bool solves_flows() const { return flows_.has_value(); }

  // Calls `fn` when the clock shows `time` (at once if it does).
  void At(double time, std::function<void()> fn);

  // Ends every rank with this cause; the first counts.
  void Fail(const RankFailure& failure);
  // An exception is leaving `rank`'s function past work that cannot finish without it: from now on the run has failed.
  // What the exception is will be known when it has left; until then `message` stands in.
  void Claim(int rank, const std::string& message);
  bool failed() const { return failure_.has_value(); }
  // After Run: lets go of what was still under way when the run failed, and of whom it would have told. These may need what was made
  // after the engine and so goes before it.
  void Forget();
  // Once the run has failed: throws PeerLost, which names the rank that failed first and why, or what all ranks are told
  // alike (Deadlock, CollectiveMismatch, Interrupted).
  void ThrowIfFailed(int rank, const std::function<std::string()>& doing) const;

  // Whether anything is on the network now.
  bool network_idle() const { return in_flight_ == 0; }

 private:
  struct SimGrid;
  struct Waiting;

  void RankMain(int rank, const std::function<void()>& body);
  void Spawn(std::function<void()> body);
  void Landed();
  // In events.cc.
  struct Event {
    double time;
    uint64_t number;
    std::function<void()> fn;
    // For heaps, whose first is the greatest.
    bool operator<(const Event& other) const { return std::pair(time, number) > std::pair(other.time, other.number); }
  };
  struct Under;  // a course under way
  void RunDue();
  void SetTimer();
  void RunSet(const std::shared_ptr<Under>& under, size_t set, size_t phase, double from);
  void SetEnded(const std::shared_ptr<Under>& under);
  struct Loose;
  void RunPhase(const Phase& phase, const std::vector<int>& endpoints, double stretch);
  // In loose.cc.
  void TransferLoose(std::shared_ptr<const Schedule> schedule, const std::vector<int>& endpoints,
                     std::function<void(const std::vector<double>&)> done, Ended ended);
  void RunLooseRank(const std::shared_ptr<Loose>& loose, size_t rank);
  void RunLooseFlow(const std::shared_ptr<Loose>& loose, size_t phase, size_t flow, double begin);
  double TakeFree(int link, double bytes, double full, double at);
  void CheckDeadlock();
  std::string Deadlocked() const;
  void Wake(int rank);
  void WakeAll();

  const Topology& topology_;
  FlightRecord* const record_;
  Router router_;
  std::vector<double> full_again_;   // by link: when the bucket of what passes at once is full (loose.cc)
  std::unique_ptr<SimGrid> simgrid_;
  std::map<int, Waiting*> waiting_;  // blocked ranks
  std::set<int> returned_;           // ranks whose function has
  std::vector<Event> events_;        // a heap: the earliest first, then the first asked for
  uint64_t asked_ = 0;
  double timer_;                     // the earliest moment at which SimGrid will run what is due
  std::optional<Flows> flows_;
  int running_ = 0;                  // ranks that are neither blocked nor done
  int in_flight_ = 0;                // transfers and timers
  std::optional<RankFailure> failure_;
  bool claimed_ = false;             // the failure is a stand-in
};

}  // namespace twofold::sim
