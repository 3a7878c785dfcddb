#include "sim/engine.h"

#include <algorithm>
#include <utility>

#include "core/base/strings.h"
#include "sim/zone.h"
#include "xbt/log.h"

namespace twofold::sim {

namespace s4u = simgrid::s4u;

struct Engine::Platform {
  std::unique_ptr<s4u::Engine> engine;
  std::vector<s4u::Host*> hosts;
};

struct Engine::Waiting {
  s4u::SemaphorePtr wake;
  std::function<std::string()> what;
};

namespace {

void Configure(const Engine::Options& options) {
  // Plain max-min sharing of bandwidth, and no corrections for TCP: see DESIGN's facts about SimGrid.
  for (const char* setting : {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0",
                              "surf/precision:1e-15", "maxmin/precision:1e-12", "debug/breakpoint:-1"}) {
    s4u::Engine::set_config(setting);
  }
  s4u::Engine::set_config(StrCat("contexts/stack-size:", options.stack.value() >> 10));
}

}  // namespace

Engine::Engine(const Topology& topology, const Options& options)
    : topology_(topology), platform_(std::make_unique<Platform>()) {
  static char name[] = "twofold", quiet[] = "--log=root.thresh:critical";
#ifdef TWOFOLD_SANITIZED
  // Sanitizers do not follow raw context switches. The factory is chosen as the engine is made, so not in Configure.
  static char factory[] = "--cfg=contexts/factory:thread";
  static char* argv[] = {name, quiet, factory, nullptr};
#else
  static char* argv[] = {name, quiet, nullptr};
#endif
  int argc = static_cast<int>(std::size(argv)) - 1;
  platform_->engine = std::make_unique<s4u::Engine>(&argc, argv);
  Configure(options);
  platform_->hosts = BuildPlatform(topology);
}

Engine::~Engine() = default;

double Engine::now() const { return s4u::Engine::get_clock(); }

void Engine::AddRank(int rank, std::function<void()> body) {
  ++running_;
  s4u::Actor::create(StrCat("rank", rank), platform_->hosts[static_cast<size_t>(rank)],
                     [this, rank, body = std::move(body)] { RankMain(rank, body); });
}

void Engine::RankMain(int rank, const std::function<void()>& body) {
  std::optional<RankFailure> failure;
  try {
    body();
  } catch (const RankFailure& e) {
    failure = e;
  } catch (const std::exception& e) {
    failure = RankFailure(RankFailure::Kind::kOther, rank, StrCat("rank ", rank, ": ", e.what()));
  }
  --running_;
  if (failure) return Fail(*failure);
  CheckDeadlock();
}

absl::Status Engine::Run() {
  platform_->engine->run();
  return failure_ ? ToStatus(*failure_) : absl::OkStatus();
}

void Engine::Block(int rank, const TimePointPtr& point, std::function<std::string()> what) {
  if (!point->known() && !failure_) {
    Waiting waiting{s4u::Semaphore::create(0), std::move(what)};
    waiting_[rank] = &waiting;
    --running_;
    point->Then([this, rank, &waiting] {
      auto it = waiting_.find(rank);  // gone when a failure woke the rank before
      if (it != waiting_.end() && it->second == &waiting) waiting.wake->release();
    });
    CheckDeadlock();
    waiting.wake->acquire();
    waiting_.erase(rank);
    ++running_;
  }
  if (!failure_) return;
  if (failure_->kind() == RankFailure::Kind::kDeadlock) throw Deadlock(rank, failure_->what());
  throw PeerLost(rank, StrCat("rank ", rank, " ends because: ", failure_->what()));
}

void Engine::Fail(const RankFailure& failure) {
  if (!failure_) failure_.emplace(failure);
  WakeAll();
}

void Engine::WakeAll() {
  std::vector<s4u::SemaphorePtr> all;  // a release lets others run, which changes waiting_
  for (auto& [rank, waiting] : waiting_) all.push_back(waiting->wake);
  for (const s4u::SemaphorePtr& wake : all) wake->release();
}

void Engine::CheckDeadlock() {
  if (running_ > 0 || in_flight_ > 0 || waiting_.empty() || failure_) return;
  std::string all;
  int told = 0;
  for (const auto& [rank, waiting] : waiting_) {
    if (++told > 64) {
      StrAppend(&all, "; and ", waiting_.size() - 64, " more ranks");
      break;
    }
    StrAppend(&all, told > 1 ? "; " : "", "rank ", rank, " waits for ", waiting->what());
  }
  Fail(Deadlock(waiting_.begin()->first, StrCat("deadlock: ", all)));
}

void Engine::Spawn(std::function<void()> body) {
  ++in_flight_;
  s4u::Actor::create("transfer", platform_->hosts[0], [this, body = std::move(body)] {
    body();
    Landed();
  });
}

void Engine::Landed() {
  --in_flight_;
  CheckDeadlock();
}

void Engine::At(double time, std::function<void()> fn) {
  if (time <= now()) return fn();
  Spawn([this, time, fn = std::move(fn)] {
    s4u::this_actor::sleep_until(time);
    if (!failed()) fn();
  });
}

void Engine::Transfer(std::shared_ptr<const Schedule> schedule, std::vector<int> endpoints, double start,
                      std::function<void(const std::vector<double>&)> done) {
  TWOFOLD_CHECK_GE(start, now());
  Spawn([this, schedule = std::move(schedule), endpoints = std::move(endpoints), start, done = std::move(done)] {
    s4u::this_actor::sleep_until(start);
    const std::vector<s4u::Host*>& hosts = platform_->hosts;
    std::vector<double> ends;  // of each phase
    std::vector<s4u::CommPtr> flows;
    for (const Phase& phase : schedule->phases) {
      double latency = phase.flows.empty() ? topology_.alpha().value() : 0;
      for (const Flow& f : phase.flows) {
        latency = std::max(latency, topology_.Latency(endpoints[static_cast<size_t>(f.from)],
                                                      endpoints[static_cast<size_t>(f.to)]).value());
      }
      if (phase.rounds > 0) s4u::this_actor::sleep_for(phase.rounds * latency);
      flows.clear();
      for (const Flow& f : phase.flows) {
        const auto units = static_cast<uint64_t>(f.bytes * kUnitsPerByte + 0.5);
        if (units == 0) continue;
        flows.push_back(s4u::Comm::sendto_async(hosts[static_cast<size_t>(endpoints[static_cast<size_t>(f.from)])],
                                                hosts[static_cast<size_t>(endpoints[static_cast<size_t>(f.to)])], units));
      }
      s4u::Comm::wait_all(flows);
      ends.push_back(now());
    }
    std::vector<double> finish;
    for (int last : schedule->last_phase) finish.push_back(last < 0 ? start : ends[static_cast<size_t>(last)]);
    if (!failed()) done(finish);
  });
}

}  // namespace twofold::sim
