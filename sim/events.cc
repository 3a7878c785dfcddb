// Timed events, and courses, whose flows are solved in advance (chart.cc): neither needs an actor.
#include <algorithm>
#include <limits>
#include <utility>

#include "sim/at_work.h"
#include "sim/course.h"
#include "sim/engine.h"
#include "sim/engine_simgrid.h"
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

// An outdated timer also runs, but does nothing: by then its event has another timer, or has run.
void Engine::SetTimer() {
  if (events_.empty() || events_.front().time >= timer_) return;
  timer_ = events_.front().time;
  simgrid::kernel::timer::Timer::set(timer_, [this, time = timer_] {
    if (time == timer_) RunDue();
  });
}

// Whether nothing happens before the next event but what events do: all ranks wait or are done, and SimGrid has no
// flows. Then its clock may go on without a timer, which costs several times as much as an event.
bool Engine::NothingElseRuns() const { return running_ == 0 && flows_ && &simgrid_clock != nullptr; }

// Runs in SimGrid's own context, where nothing may block.
void Engine::RunDue() {
  const AtWork at_work(Part::kEngine);
  timer_ = -std::numeric_limits<double>::infinity();  // keeps events from setting timers; SetTimer runs at the end
  while (!events_.empty()) {
    if (events_.front().time > now()) {
      if (!NothingElseRuns()) break;
      simgrid_clock = events_.front().time;
    }
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
  if (phase.flows == nullptr && phase.flows_seconds == 0) return PhaseEnded(under, set, number, begin);
  At(begin, [this, under, set, number] {
    const Course::Phase& phase = under->course->sets[set].phases[number];
    auto ended = [this, under, set, number](double first) {
      const AtWork at_work(Part::kEngine);
      under->apart = std::max(under->apart, now() - first);
      PhaseEnded(under, set, number, now());
    };
    if (phase.flows != nullptr) {
      flows_->BeginTogether(phase.flows, std::move(ended), under->use);
    } else {
      const auto solve = [course = under->course, set, number] {
        return course->solve()->sets[set].phases[number].flows;
      };
      flows_->BeginUnsolved(phase.flows_seconds, phase.most, solve, std::move(ended), under->use);
    }
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
