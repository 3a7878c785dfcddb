#include "sim/engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/rank_list.h"
#include "core/base/strings.h"
#include "sim/at_work.h"
#include "sim/course.h"
#include "sim/engine_simgrid.h"
#include "sim/latency.h"
#include "sim/zone.h"
#include "simgrid/Exception.hpp"
#include "simgrid/kernel/Timer.hpp"
#include "topologies/graph/no_route.h"
#include "xbt/log.h"

namespace twofold::sim {

namespace s4u = simgrid::s4u;

struct Engine::Waiting {
  s4u::SemaphorePtr wake;
  const std::function<std::string()>& what;
};

namespace {

// What a process sets once, for all of its engines.
void ConfigureProcess() {
  // Plain max-min sharing of bandwidth, and no corrections for TCP.
  for (const char* setting : {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0",
                              "surf/precision:1e-15", "maxmin/precision:1e-12", "debug/breakpoint:-1"}) {
    s4u::Engine::set_config(setting);
  }
}

void Configure(const Engine::Options& options) {
  [[maybe_unused]] static const bool once = (ConfigureProcess(), true);
  s4u::Engine::set_config(StrCat("contexts/stack-size:", options.stack.value() >> 10));
  // A guard page makes each stack two mappings, and Linux allows a process 65,530; without it, adjacent stacks merge
  // into one mapping.
  s4u::Engine::set_config(StrCat("contexts/guard-size:", options.many_actors ? 0 : 1));
}

}  // namespace

Engine::Engine(const Topology& topology, const Options& options)
    : topology_(topology),
      record_(options.record),
      router_(topology, options.routing),
      full_again_(topology.link_count()),
      simgrid_(std::make_unique<SimGrid>()),
      timer_(std::numeric_limits<double>::infinity()),
      twins_from_(options.twins_from) {
  static char name[] = "twofold", quiet[] = "--log=root.thresh:critical";
#ifdef TWOFOLD_SANITIZED
  // Sanitizers do not follow raw context switches. The factory is chosen when the engine is created, so not in
  // Configure.
  static char factory[] = "--cfg=contexts/factory:thread";
  static char* argv[] = {name, quiet, factory, nullptr};
#else
  static char* argv[] = {name, quiet, nullptr};
#endif
  int argc = static_cast<int>(std::size(argv)) - 1;
  if (MayFollow()) simgrid_clock = 0;
  simgrid_->engine = std::make_unique<s4u::Engine>(&argc, argv);
  Configure(options);
  simgrid_->platform.emplace(topology);
  if (options.record_links) links_.emplace(topology);
  if (options.solve_flows) ResetFlows();
}

// Timers that are outdated are left, and call an engine that is gone.
Engine::~Engine() {
  auto& timers = simgrid::kernel::timer::kernel_timers();
  while (!timers.empty()) timers.top().second->remove();
}

bool Engine::MayFollow() {
#ifdef TWOFOLD_SANITIZED
  return false;  // actors are threads then
#else
  return &simgrid_clock != nullptr;
#endif
}

void Engine::Forget() {
  events_.clear();
  flows_.reset();
}

double Engine::now() const { return s4u::Engine::get_clock(); }

void Engine::AddRank(int rank, std::function<void()> body) {
  ++running_;
  s4u::Actor::create(StrCat("rank", rank), simgrid_->platform->host(),
                     [this, rank, body = std::move(body)] { RankMain(rank, body); });
}

void Engine::RankMain(int rank, const std::function<void()>& body) {
  std::optional<RankFailure> failure;
  if (record_ != nullptr) record_->SetTurn({rank, false});
  try {
    const AtWork at_work(Part::kRanks);
    body();
  } catch (const simgrid::ForcefulKillException&) {
    throw;  // SimGrid's own way of ending an actor
  } catch (...) {
    failure = CurrentFailure(rank);
  }
  if (record_ != nullptr) record_->SetTurn({FlightRecord::kNobody, true});
  --running_;
  if (failure) {
    // What it threw, perhaps in the name of another rank, is why it left work unfinished.
    if (claimed_ && failure_->rank() == rank) failure_.reset(), claimed_ = false;
    return Fail(*failure);
  }
  returned_.insert(rank);
  if (failure_) return WakeAll();  // it caught an exception that had left unfinished work behind
  CheckDeadlock();
}

absl::Status Engine::Run() {
  simgrid_->engine->run();
  return failure_ ? ToStatus(*failure_) : absl::OkStatus();
}

void Engine::Block(int rank, const TimePointPtr& point, const std::function<std::string()>& what) {
  const FlightRecord::Aside aside(record_);
  const AtWork at_work(Part::kEngine);
  if (!point->known() && !failure_) Wait(rank, point, what);
  ThrowIfFailed(rank, what);
}

void Engine::Wait(int rank, const TimePointPtr& point, const std::function<std::string()>& what) {
  ++counters_.waits;
  Waiting waiting{s4u::Semaphore::create(0), what};
  waiting_[rank] = &waiting;
  --running_;
  point->Then([this, rank, &waiting] {
    auto it = waiting_.find(rank);  // not found if a failure woke the rank before
    if (it != waiting_.end() && it->second == &waiting) Wake(rank);
  });
  CheckDeadlock();
  waiting.wake->acquire();
}

void Engine::Pause(int rank, const TimePointPtr& point, const std::function<std::string()>& what) {
  const FlightRecord::Aside aside(record_);
  const AtWork at_work(Part::kEngine);
  if (!point->known()) Wait(rank, point, what);
}

void Engine::GoOn() {
  failure_.reset();
  claimed_ = false;
  ++life_;
  returned_.clear();
  in_flight_ -= static_cast<int>(std::erase_if(events_, [](const Event& event) { return !event.alarm; }));
  std::make_heap(events_.begin(), events_.end());
  settles_ = false;
  SetTimer();
  if (flows_) ResetFlows();
}

void Engine::ResetFlows() {
  charted_.clear();
  flows_.reset();
  flows_.emplace(
      topology_, [this] { return now(); }, [this](double time, std::function<void()> fn) { At(time, std::move(fn)); },
      links());
}

LinkLoads Engine::LinkLoadsOf() {
  if (!links_ || !links_->on()) return {};
  flows_.reset();
  return links_->Loads();
}

void Engine::ThrowIfFailed(int rank, const std::function<std::string()>& doing) const {
  if (!failure_) return;
  using Kind = RankFailure::Kind;
  const Kind kind = failure_->kind();
  if (failure_->rank() == rank || kind == Kind::kDeadlock || kind == Kind::kCollectiveMismatch) {
    ThrowFailure(kind, rank, failure_->what());
  }
  if (kind == Kind::kInterrupted) throw Interrupted(rank, StrCat("rank ", rank, ": interrupted in ", doing()));
  throw PeerLost(rank,
                 StrCat("rank ", rank, ": lost rank ", failure_->rank(), " in ", doing(), ": ", failure_->what()));
}

void Engine::ThrowUnlessSurvivable(int rank) const {
  if (!failure_ || IsSurvivable(failure_->kind())) return;
  ThrowIfFailed(rank, [] { return std::string("forming the next generation of members"); });
}

void Engine::Fail(const RankFailure& failure) {
  const bool explains = claimed_ && failure_->rank() == failure.rank();
  const bool graver = failure_ && failure.kind() == RankFailure::Kind::kRunOver && IsSurvivable(failure_->kind());
  if (!failure_ || explains || graver) failure_.emplace(failure);
  claimed_ = claimed_ && !explains;
  WakeAll();
}

// Wakes nobody, because that would let others run during unwinding. The end of the rank's function does it.
void Engine::Claim(int rank, const std::string& message) {
  if (failure_) return;
  failure_.emplace(RankFailure::Kind::kOther, rank, message);
  claimed_ = true;
}

// The rank counts as running from here on, even if it gets its turn later. Releasing a semaphore, like every call of
// SimGrid, may let others run before it returns.
void Engine::Wake(int rank) {
  const FlightRecord::Aside aside(record_);
  const auto it = waiting_.find(rank);
  const s4u::SemaphorePtr wake = it->second->wake;
  waiting_.erase(it);
  ++running_;
  wake->release();
}

void Engine::WakeAll() {
  const FlightRecord::Aside aside(record_);
  std::vector<s4u::SemaphorePtr> all;
  for (auto& [rank, waiting] : waiting_) all.push_back(waiting->wake);
  running_ += static_cast<int>(all.size());
  waiting_.clear();
  for (const s4u::SemaphorePtr& wake : all) wake->release();
}

void Engine::CheckDeadlock() {
  if (running_ > 0 || in_flight_ > 0 || waiting_.empty() || failure_) return;
  Fail(Deadlock(waiting_.begin()->first, StrCat("deadlock: ", Deadlocked())));
}

// Who waits for what; ranks that wait for the same thing are listed together.
std::string Engine::Deadlocked() const {
  constexpr size_t kTold = 64;
  std::vector<std::pair<std::string, std::vector<int>>> waits;
  absl::flat_hash_map<std::string, size_t> places;
  for (const auto& [rank, waiting] : waiting_) {
    std::string what = waiting->what();
    const auto [place, first] = places.try_emplace(what, waits.size());
    if (first) waits.emplace_back(std::move(what), std::vector<int>());
    waits[place->second].second.push_back(rank);
  }
  std::string all;
  size_t untold = waiting_.size();
  for (size_t i = 0; i < std::min(waits.size(), kTold); ++i) {
    const auto& [what, ranks] = waits[i];
    StrAppend(&all, i > 0 ? "; " : "", RankList(ranks), ranks.size() == 1 ? " waits for " : " wait for ", what);
    untold -= ranks.size();
  }
  if (untold > 0) StrAppend(&all, "; and ", untold, " more ranks");
  const std::vector<int> returned(returned_.begin(), returned_.end());
  if (!returned.empty())
    StrAppend(&all, "; ", RankList(returned), returned.size() == 1 ? " has" : " have", " returned");
  return all;
}

void Engine::Spawn(std::function<void()> body) {
  ++in_flight_;
  const FlightRecord::Aside aside(record_);  // the new actor may run before this returns
  s4u::Actor::create("transfer", simgrid_->platform->host(), [this, body = std::move(body)] {
    std::optional<RankFailure> failure;
    try {
      body();
    } catch (const NoRoute& none) {
      failure.emplace(RankFailure::Kind::kOther, 0, none.what());
    }
    if (failure) Fail(*failure);
    Landed();
  });
}

void Engine::Landed() {
  --in_flight_;
  CheckDeadlock();
}

void Engine::Transfer(std::shared_ptr<const Schedule> schedule, std::vector<int> endpoints, double start,
                      std::function<void(const std::vector<double>&)> done, Ended ended, int use) {
  TWOFOLD_CHECK_GE(start, now());
  const AtWork at_work(Part::kEngine);
  if (flows_) {
    TWOFOLD_CHECK(!schedule->loose && ended == nullptr, "the flow solver takes only schedules that go step by step");
    const Copy copy{std::move(schedule), endpoints};
    return Run(
        Chart({&copy, 1}), start, [done = std::move(done)](const std::vector<double>& finish, double) { done(finish); },
        use);
  }
  ++counters_.transfers;
  Spawn([this, schedule = std::move(schedule), endpoints = std::move(endpoints), start, done = std::move(done),
         ended = std::move(ended), life = life_, use] {
    s4u::this_actor::sleep_until(start);
    if (life != life_) return;
    if (schedule->loose) return TransferLoose(schedule, endpoints, done, ended, use);
    auto tell = [&](int last, double time) {
      for (size_t e = 0; ended != nullptr && e < schedule->last_phase.size(); ++e) {
        if (schedule->last_phase[e] == last && !Stale(life)) ended(e, time);
      }
    };
    tell(-1, start);
    std::vector<double> ends;  // by phase
    for (const Phase& phase : schedule->phases) {
      RunPhase(phase, endpoints, schedule->stretch, use);
      ends.push_back(now());
      tell(static_cast<int>(ends.size()) - 1, now());
    }
    std::vector<double> finish;
    for (int last : schedule->last_phase) finish.push_back(last < 0 ? start : ends[static_cast<size_t>(last)]);
    if (!Stale(life)) done(finish);
  });
}

void Engine::RunPhase(const Phase& phase, const std::vector<int>& endpoints, double stretch, int use) {
  std::vector<Request> requests;
  for (size_t i = 0; i < phase.flows.size(); ++i) {
    const Flow& f = phase.flows[i];
    const Pair pair{endpoints[static_cast<size_t>(f.from)], endpoints[static_cast<size_t>(f.to)], f.rail};
    requests.push_back({pair, i, f.bytes * stretch});
  }
  std::vector<std::vector<Path>> paths;
  router_.Choose(requests, paths);
  std::vector<double> latencies(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    latencies[i] = RouteLatency(topology_, router_.options().policy, requests[i].pair, paths[i]);
  }
  s4u::this_actor::sleep_for(PhaseLatency(phase, latencies, topology_.alpha().value()) * stretch);
  std::vector<std::vector<s4u::CommPtr>> flows(phase.flows.size());
  for (size_t i = 0; i < phase.flows.size(); ++i) {
    const Flow& f = phase.flows[i];
    for (const Path& path : paths[i]) {
      if (const double bytes = f.bytes * path.share * stretch; bytes > 0) {
        flows[i].push_back(simgrid_->platform->Start(path.links, bytes, f.rate * path.share, path.parts));
      }
    }
  }
  for (size_t i = 0; i < phase.flows.size(); ++i) {
    s4u::Comm::wait_all(flows[i]);
    for (size_t p = 0; links_ && p < flows[i].size(); ++p) {
      const Path& path = paths[i][p];  // all have bytes, or none
      links_->Carry(path.links, phase.flows[i].bytes * path.share, flows[i][p]->get_start_time(),
                    flows[i][p]->get_finish_time(), use);
    }
    router_.Finished(paths[i], phase.flows[i].bytes * stretch);
  }
}

}  // namespace twofold::sim
