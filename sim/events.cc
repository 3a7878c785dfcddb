// Timed events, and schedules whose flows are solved in advance: neither needs an actor.
#include <algorithm>
#include <limits>
#include <utility>

#include "sim/at_work.h"
#include "sim/engine.h"
#include "sim/engine_simgrid.h"
#include "sim/latency.h"
#include "simgrid/kernel/Timer.hpp"
#include "topologies/graph/no_route.h"

namespace twofold::sim {

void Engine::At(double time, std::function<void()> fn) {
  if (time <= now()) return fn();
  Add({.time = time, .number = asked_++, .fn = std::move(fn)});
}

void Engine::Alarm(double time, std::function<void()> fn) {
  if (time <= now()) return fn();
  Add({.time = time, .number = asked_++, .fn = std::move(fn), .alarm = true});
}

void Engine::Add(Event event) {
  ++in_flight_;
  events_.push_back(std::move(event));
  std::push_heap(events_.begin(), events_.end());
  SetTimer();
}

Engine::Due Engine::due() const {
  Due due{.events = events_.size()};
  if (events_.empty()) return due;
  due.first = events_.front().time;
  for (const Event& e : events_) due.last = std::max(due.last, e.time), due.mean += e.time - due.first;
  due.mean = due.first + due.mean / static_cast<double>(events_.size());
  return due;
}

// An outdated timer also runs, but does nothing: by then its event has another timer.
void Engine::SetTimer() {
  if (events_.empty() || events_.front().time >= timer_) return;
  timer_ = events_.front().time;
  simgrid::kernel::timer::Timer::set(timer_, [this, time = timer_] {
    if (time == timer_) RunDue();
  });
}

// Runs in SimGrid's own context, where nothing may block.
void Engine::RunDue() {
  const AtWork at_work(Part::kEngine);
  timer_ = -std::numeric_limits<double>::infinity();  // keeps events from setting timers; SetTimer runs at the end
  while (!events_.empty() && events_.front().time <= now()) {
    std::pop_heap(events_.begin(), events_.end());
    const Event event = std::move(events_.back());
    events_.pop_back();
    ++counters_.events;
    std::optional<RankFailure> failure;
    try {
      if (event.alarm || !failed()) event.fn();
    } catch (const NoRoute& none) {
      failure.emplace(RankFailure::Kind::kOther, 0, none.what());
    }
    if (failure) Fail(*failure);
    Landed();
  }
  timer_ = std::numeric_limits<double>::infinity();
  SetTimer();
}

// Copies whose phases have the same latencies run in step: the flows of a phase form one bundle.
class Engine::Course {
 public:
  struct Phase {
    double seconds;
    Flows::BundlePtr flows;
  };  // its latency; null: no flows
  struct Set {
    std::vector<double> seconds;  // of phases
    std::vector<FlowSet> flows = {};
    std::vector<Phase> phases = {};
  };
  struct Copy {
    size_t set;
    std::vector<int> last_phase;
  };
  std::vector<Set> sets;
  std::vector<Copy> copies;  // none if `together`
  bool together = true;      // all endpoints are done when the last phase of the only set has ended
};

std::shared_ptr<const LinkTwins> Engine::TwinsOf(std::span<const Copy> copies) {
  size_t flows = 0;
  for (const Phase& phase : copies[0].schedule->phases) flows += phase.flows.size();
  const auto same = [&](const Copy& c) { return c.schedule == copies[0].schedule; };
  if (copies.size() < 2 || copies.size() * flows < twins_from_ || !Twins::Possible(router_.options().policy) ||
      !std::all_of(copies.begin(), copies.end(), same))
    return nullptr;
  std::vector<std::vector<int>> endpoints;
  for (const Copy& copy : copies) endpoints.push_back(copy.endpoints);
  auto known = twins_.find(endpoints);
  if (known == twins_.end()) {
    Twins twins(topology_, router_, endpoints, static_cast<int64_t>(twins_.size()));
    known = twins_.emplace(std::move(endpoints), std::move(twins)).first;
  }
  return known->second.Cover(*copies[0].schedule) ? known->second.links() : nullptr;
}

std::shared_ptr<const Engine::Course> Engine::Chart(std::span<const Copy> copies) {
  auto course = std::make_shared<Course>();
  const std::shared_ptr<const LinkTwins> twins = TwinsOf(copies);
  std::vector<Path> paths;
  std::vector<int> lots;  // by set: copies
  for (const Copy& copy : copies) {
    const Schedule& schedule = *copy.schedule;
    if (twins != nullptr && &copy != copies.data()) {
      course->copies.push_back(course->copies[0]);
      continue;
    }
    Course::Set own;
    for (const Phase& phase : schedule.phases) {
      std::vector<double> routes;
      FlowSet& flows = own.flows.emplace_back();
      flows.twins = twins;
      const bool pipelined = IsPipelined(phase);
      for (size_t i = 0; i < phase.flows.size(); ++i) {
        const Flow& f = phase.flows[i];
        const Pair pair{copy.endpoints[static_cast<size_t>(f.from)], copy.endpoints[static_cast<size_t>(f.to)], f.rail};
        router_.Choose(pair, i, f.bytes * schedule.stretch, paths);
        const bool counts = RouteCounts(phase, pipelined, f);
        routes.push_back(counts ? RouteLatency(topology_, router_.options().policy, pair, paths) : 0);
        for (const Path& path : paths) {
          const double bytes = f.bytes * path.share * schedule.stretch;
          if (bytes > 0) flows.Add(path.links, bytes, f.rate * path.share);
        }
      }
      own.seconds.push_back(PhaseLatency(phase, routes, topology_.alpha().value()) * schedule.stretch);
    }
    auto set = std::find_if(course->sets.begin(), course->sets.end(),
                            [&own](const Course::Set& s) { return s.seconds == own.seconds; });
    course->copies.push_back({static_cast<size_t>(set - course->sets.begin()), schedule.last_phase});
    const auto last = static_cast<int>(schedule.phases.size()) - 1;
    for (int l : schedule.last_phase) course->together = course->together && l == last;
    if (set == course->sets.end()) {
      course->sets.push_back(std::move(own));
      lots.push_back(1);
      continue;
    }
    const int lot = lots[course->copies.back().set]++;
    for (size_t p = 0; p < own.flows.size(); ++p) set->flows[p].Add(own.flows[p], lot);
  }
  for (Course::Set& set : course->sets) {
    for (size_t p = 0; p < set.seconds.size(); ++p) {
      const bool none = set.flows[p].empty();
      set.phases.push_back({set.seconds[p], none ? nullptr : flows_->Solve(std::move(set.flows[p]))});
    }
    set.flows = {};
  }
  course->together = course->together && course->sets.size() == 1;
  if (course->together) course->copies = {};
  return course;
}

struct Engine::Under {
  std::shared_ptr<const Course> course;
  double start;
  Arrived done;
  int use;
  std::vector<std::vector<double>> ends = {};  // by set, then by phase
  size_t left = 0;                             // sets that have not ended
  double apart = 0;
};

void Engine::Run(std::shared_ptr<const Course> course, double start, Arrived done, int use) {
  const AtWork at_work(Part::kEngine);
  ++counters_.transfers;
  const size_t sets = course->sets.size();
  auto under =
      std::make_shared<Under>(Under{.course = std::move(course), .start = start, .done = std::move(done), .use = use});
  under->ends.resize(sets), under->left = sets;
  for (size_t set = 0; set < sets; ++set) RunSet(under, set, 0, start);
}

void Engine::Record(const Course& course, double start, int use) {
  for (const Course::Set& set : course.sets) {
    double from = start;
    for (const Course::Phase& phase : set.phases) {
      from += phase.seconds;
      if (phase.flows != nullptr) from = flows_->Record(phase.flows, from, use);
    }
  }
}

void Engine::RunSet(const std::shared_ptr<Under>& under, size_t set, size_t number, double from) {
  const std::vector<Course::Phase>& phases = under->course->sets[set].phases;
  if (number == phases.size()) {  // after phases without flows, the clock may not have reached `from` yet
    return At(from, [this, under] { SetEnded(under); });
  }
  const Course::Phase& phase = phases[number];
  const double begin = from + phase.seconds;
  if (phase.flows == nullptr) return PhaseEnded(under, set, number, begin);
  At(begin, [this, under, set, number] {
    flows_->BeginTogether(
        under->course->sets[set].phases[number].flows,
        [this, under, set, number](double first) {
          const AtWork at_work(Part::kEngine);
          under->apart = std::max(under->apart, now() - first);
          PhaseEnded(under, set, number, now());
        },
        under->use);
    SettleSoon();
  });
}

// After all that is due at this time, since more flows may begin then.
void Engine::SettleSoon() {
  if (std::exchange(settles_, true)) return;
  Add({.time = now(), .number = asked_++, .fn = [this] {
         settles_ = false;
         flows_->Settle();
       }});
}

void Engine::PhaseEnded(const std::shared_ptr<Under>& under, size_t set, size_t number, double time) {
  under->ends[set].push_back(time);
  RunSet(under, set, number + 1, time);
}

void Engine::SetEnded(const std::shared_ptr<Under>& under) {
  if (--under->left > 0 || failed()) return;
  if (under->course->together)
    return under->done({under->ends[0].empty() ? under->start : under->ends[0].back()}, under->apart);
  std::vector<double> finish;
  for (const Course::Copy& copy : under->course->copies) {
    for (int last : copy.last_phase) {
      finish.push_back(last < 0 ? under->start : under->ends[copy.set][static_cast<size_t>(last)]);
    }
  }
  under->done(finish, under->apart);
}

}  // namespace twofold::sim
