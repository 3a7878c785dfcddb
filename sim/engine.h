// The simulation: ranks are actors on SimGrid's virtual clock, and transfers are flows that share the links.
//
// A process has at most one engine at a time (SimGrid's rule), used by one thread. Everything here runs in turn, never
// concurrently, so there are no locks. A rank's actor runs ahead of the clock while its times depend only on its own
// time lines. It blocks on a TimePoint that depends on other ranks. Nothing that it starts begins before the clock's
// present time.
//
// Timed events are kept in our own queue, ordered by time and then by the order of requests; SimGrid's clock runs to
// the next event. While no rank can go on and no flow is SimGrid's, the engine sets the clock itself. With
// `solve_flows`, flows.h computes how flows share links. Without it, and for loose schedules (Schedule::loose), SimGrid
// does.
//
// Assumes: what topologies and schedules state. Ignores: CPU time of the network stack, packet effects, congestion
// control (flows get their max-min share at once).
#pragma once

#include <functional>
#include <list>
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
#include "sim/link_history.h"
#include "sim/timeline.h"
#include "sim/twins.h"
#include "topologies/graph/topology.h"
#include "topologies/routing.h"

namespace twofold::sim {

class Platform;

class Engine {
 public:
  struct Options {
    Bytes stack{256 << 10};  // of each actor; ranks that compute need 8 MiB
    // Stacks get no guard pages. Needed for many thousands of actors (ranks, or messages of loose schedules), because
    // Linux limits a process's memory mappings.
    bool many_actors = false;
    FlightRecord* record = nullptr;  // is told whose turn it is; must outlive the engine
    RoutingOptions routing;
    // Must be false with loose schedules or adaptive routing: their flows run in SimGrid, and flows of the two solvers
    // do not share bandwidth with each other.
    bool solve_flows = false;
    // A course of at least so many flows is charted by one of its copies, if those are twins (twins.h).
    size_t twins_from = 1 << 14;
    bool record_links = false;  // what links carry can be recorded (links())
  };
  // The topology must outlive the engine.
  Engine(const Topology& topology, const Options& options);
  ~Engine();
  // Whether a process may have several engines, one after another: each begins at time 0. It depends on SimGrid.
  static bool MayFollow();

  const Topology& topology() const { return topology_; }
  LinkHistory* links() { return links_ ? &*links_ : nullptr; }  // null: not asked for
  // Of what has run until now. The engine is of no use afterwards.
  LinkLoads LinkLoadsOf();
  Router& router() { return router_; }              // knows all flows in flight, of both solvers
  FlightRecord* record() const { return record_; }  // null: no record is kept

  // Call before Run. `body` may throw; the first failure ends every rank.
  void AddRank(int rank, std::function<void()> body);
  // Runs to the end; returns OK or the first failure.
  absl::Status Run();

  double now() const;  // SimGrid's clock

  // Called by rank actors. Returns when `point` is known. Throws Deadlock if it can never be known, and whatever
  // ThrowIfFailed throws. `what` describes what the rank waits for; it is called only for error messages.
  void Block(int rank, const TimePointPtr& point, const std::function<std::string()>& what);

  // Like Block, but the failure of a rank neither keeps it from waiting nor throws: it returns when `point` is known,
  // or earlier when some rank fails. For ranks that outlive a failure.
  void Pause(int rank, const TimePointPtr& point, const std::function<std::string()>& what);
  // The run goes on after a failure, without those that failed: forgets the failure, and everything that is in flight.
  // Nothing that was started before calls back. Call when all ranks that go on pause.
  void GoOn();

  // Runs `schedule` among `endpoints` from `start` on (not before now). When a phase begins, the router chooses each
  // flow's paths. A flow's bytes and rate are divided among its paths by their shares; it ends when its last part ends.
  // `done` receives the finish time of each endpoint. Neither it nor a timer is called once the run has failed, because
  // what they refer to may be destroyed. If a pair has no route left, the run fails. `ended`, if not null, is called
  // for each endpoint, by its index in `endpoints`, at the time when it finishes.
  // `use`: what it belongs to (LinkHistory::UseOf).
  using Ended = std::function<void(size_t place, double time)>;
  void Transfer(std::shared_ptr<const Schedule> schedule, std::vector<int> endpoints, double start,
                std::function<void(const std::vector<double>& finish)> done, Ended ended = nullptr, int use = 0);

  // A course: several copies of one schedule, each among its own endpoints, that always begin together. Chart solves
  // their flows once, in advance, and Run may run the course many times. Only for engines with solve_flows.
  struct Copy {
    std::shared_ptr<const Schedule> schedule;
    const std::vector<int>& endpoints;
  };
  class Course;
  std::shared_ptr<const Course> Chart(std::span<const Copy> copies);  // throws NoRoute
  // The same of one copy whose phases, and their flows without latencies, take so many seconds each if they have the
  // network to themselves, stretched as the schedule says. Its flows are solved only if others meet them. For schedules
  // of which MayWait.
  struct Alone {
    double latency, flows;
    double most = 2;  // share of any link's bandwidth that the flows take at most (PhaseTimes::Time::most); 2: unknown
  };
  std::shared_ptr<const Course> ChartUnsolved(const Copy& copy, std::span<const Alone> phases);
  bool MayWait(const Schedule& schedule) const;
  int64_t flows_listed() const { return flows_listed_; }                 // by Chart: flows of all copies
  int64_t twins() const { return static_cast<int64_t>(twins_.size()); }  // lists of endpoints that were compared
  // Like Transfer. `done` receives the endpoints' times copy by copy, or a single time if all are equal. Copies whose
  // phases have the same latencies start each phase together, when the last of them has finished the previous one.
  // `apart`: the longest time, in seconds, between the first and the last of them finishing the same phase.
  using Arrived = std::function<void(const std::vector<double>& finish, double apart)>;
  void Run(std::shared_ptr<const Course> course, double start, Arrived done, int use = 0);
  // For the history alone: the course runs from `start` on with the network to itself.
  void Record(const Course& course, double start, int use);
  bool solves_flows() const { return flows_.has_value(); }

  // Calls `fn` when the clock reaches `time`, or at once if that time has passed.
  void At(double time, std::function<void()> fn);
  // Likewise, but a failure of the run keeps nothing from it, and GoOn does not forget it. `fn` must not block, and
  // what it refers to must outlive the run.
  void Alarm(double time, std::function<void()> fn);

  // Ends every rank with this failure. Only the first one counts, but kRunOver takes the place of a survivable one.
  void Fail(const RankFailure& failure);
  // Call it when an exception is leaving `rank`'s function and unfinished work needs that rank. The run then counts as
  // failed. The exception itself is known only after it has left the function; until then `message` takes its place.
  void Claim(int rank, const std::string& message);
  bool failed() const { return failure_.has_value(); }
  // After Run: releases transfers and callbacks that were still pending when the run failed. Their destructors may need
  // objects that are created after the engine and so destroyed before it.
  void Forget();
  // If the run has failed, throws. The rank that failed first gets its own failure. All ranks get a Deadlock, a
  // CollectiveMismatch or Interrupted. For any other failure, the other ranks get PeerLost, which names the rank that
  // failed first and says why.
  void ThrowIfFailed(int rank, const std::function<std::string()>& doing) const;

  // Throws as ThrowIfFailed does if the ranks cannot go on after this failure: what a program does wrong, it would do
  // again.
  void ThrowUnlessSurvivable(int rank) const;
  std::string failure_text() const { return failure_ ? failure_->what() : std::string(); }

  struct Counters {
    int64_t events = 0;     // timed
    int64_t waits = 0;      // of ranks, for what others decide
    int64_t transfers = 0;  // schedules and courses run
  };
  const Counters& counters() const { return counters_; }
  const Flows* flows() const { return flows_ ? &*flows_ : nullptr; }  // null: SimGrid shares the links

  // Whether the network is idle now.
  bool network_idle() const { return in_flight_ == 0; }
  // The timed events to come.
  struct Due {
    size_t events = 0;
    double first = 0, last = 0, mean = 0;  // their times; 0 if there are none
  };
  Due due() const;

 private:
  struct SimGrid;
  struct Waiting;

  void Wait(int rank, const TimePointPtr& point, const std::function<std::string()>& what);
  // Whether what was started in that life must not call back: it refers to ranks that are gone.
  bool Stale(int life) const { return failed() || life != life_; }
  void RankMain(int rank, const std::function<void()>& body);
  void Spawn(std::function<void()> body);
  void Landed();
  // In events.cc.
  struct Event {
    double time;
    uint64_t number;
    std::function<void()> fn;
    bool alarm = false;
    // For heaps, which have the greatest element first.
    bool operator<(const Event& other) const { return std::pair(time, number) > std::pair(other.time, other.number); }
  };
  struct Under;  // a course in progress
  void Add(Event event);
  void RunDue();
  void SettleSoon();
  void SetTimer();
  bool NothingElseRuns() const;
  void RunSet(const std::shared_ptr<Under>& under, size_t set, size_t phase, double from);
  void PhaseEnded(const std::shared_ptr<Under>& under, size_t set, size_t number, double time);
  void SetEnded(const std::shared_ptr<Under>& under);
  // Null if the copies are no twins, or too few to look.
  std::shared_ptr<const LinkTwins> TwinsOf(std::span<const Copy> copies);
  struct Charted;
  std::optional<Charted> KeyOf(std::span<const Copy> copies) const;
  std::shared_ptr<const Course> ChartLike(const Charted& known, const Charted& now, const Schedule& schedule);
  // Of each phase the latency, the latencies of its flows' routes, and the flows.
  void List(const Copy& copy, const std::shared_ptr<const LinkTwins>& twins, std::vector<double>& seconds,
            std::vector<std::vector<double>>& latencies, std::vector<FlowSet>& sets);
  struct Loose;
  void RunPhase(const Phase& phase, const std::vector<int>& endpoints, double stretch, int use);
  // In loose.cc.
  void TransferLoose(std::shared_ptr<const Schedule> schedule, const std::vector<int>& endpoints,
                     std::function<void(const std::vector<double>&)> done, Ended ended, int use);
  void RunLooseRank(const std::shared_ptr<Loose>& loose, size_t rank);
  void RunLooseFlow(const std::shared_ptr<Loose>& loose, size_t phase, size_t flow, double begin);
  double TakeFree(int link, double bytes, double full, double at);
  void CheckDeadlock();
  std::string Deadlocked() const;
  void Wake(int rank);
  void ResetFlows();
  void WakeAll();

  const Topology& topology_;
  FlightRecord* const record_;
  Router router_;
  Zeros<double> full_again_;  // by link: when its token bucket is full again (loose.cc)
  std::unique_ptr<SimGrid> simgrid_;
  std::map<int, Waiting*> waiting_;  // blocked ranks
  std::set<int> returned_;           // ranks whose function has returned
  std::vector<Event> events_;        // a heap: the earliest first; among equals the first requested
  uint64_t asked_ = 0;
  double timer_;  // the earliest time at which SimGrid will call RunDue
  std::optional<LinkHistory> links_;
  std::optional<Flows> flows_;
  const size_t twins_from_;
  std::map<std::vector<std::vector<int>>, Twins> twins_;  // by endpoints
  std::list<Charted> charted_;                            // the latest last
  int64_t flows_listed_ = 0;
  Counters counters_;
  int running_ = 0;       // ranks that are neither blocked nor done
  bool settles_ = false;  // an event will start the flows that are held
  int in_flight_ = 0;     // transfers and timers
  int life_ = 0;          // how often GoOn was called
  std::optional<RankFailure> failure_;
  bool claimed_ = false;  // failure_ has Claim's message; Fail will replace it by the exception's
};

}  // namespace twofold::sim
