#include "sim/timeline.h"

#include <algorithm>
#include <utility>

namespace twofold::sim {

void TimePoint::Resolve(double time) {
  TWOFOLD_CHECK(!known_, "a point in time is resolved once");
  time_ = time;
  known_ = true;
  for (auto& fn : std::exchange(waiters_, {})) fn();
}

void TimePoint::Then(std::function<void()> fn) {
  if (known_) return fn();
  waiters_.push_back(std::move(fn));
}

void Timeline::Advance(double seconds, double not_before, std::string_view name, std::string_view label) {
  const bool traced = tracer_ && !name.empty();
  if (queue_.empty()) {
    if (traced) return Span(seconds, not_before, name, label);
    time_ = std::max(time_, not_before) + seconds;
    return;
  }
  if (traced)
    return Push({.kind = Command::kSpan, .seconds = seconds, .not_before = not_before, .name = name, .label = label});
  if (queue_.back().kind != Command::kStretch) {
    return Push({.kind = Command::kStretch, .stretch = {seconds, not_before + seconds}});
  }
  Stretch& s = queue_.back().stretch;
  s = {s.add + seconds, std::max(s.least, not_before) + seconds};
}

void Timeline::Span(double seconds, double not_before, std::string_view name, std::string_view label) {
  const double start = std::max(time_, not_before);
  time_ = start + seconds;
  if (tracer_) tracer_(name, label, start, time_);
}

void Timeline::PassWait(double until, std::string_view name) {
  if (until <= time_) return;
  stalled_ += until - time_;
  if (wait_tracer_ && !name.empty()) wait_tracer_(name, time_, until);
  time_ = until;
}

void Timeline::WaitFor(const TimePointPtr& point, std::string_view name) {
  if (queue_.empty() && point->known()) return PassWait(point->time(), name);
  const bool first = queue_.empty();
  Push({.kind = Command::kWait, .name = name, .point = point});
  if (first) point->Then([self = shared_from_this()] { self->Resume(); });
}

TimePointPtr Timeline::Record() {
  if (queue_.empty()) return std::make_shared<TimePoint>(time_);
  auto point = std::make_shared<TimePoint>();
  Call([point](double t) { point->Resolve(t); });
  return point;
}

void Timeline::Call(std::function<void(double)> fn) {
  if (queue_.empty()) return fn(time_);
  Push({.kind = Command::kCall, .fn = std::move(fn)});
}

void Timeline::Push(Command command) { queue_.push_back(std::move(command)); }

// The point at the head of the queue has become known: proceeds to the next unknown point.
void Timeline::Resume() {
  TWOFOLD_CHECK(!resuming_, "a stream is not resumed while it resumes");
  resuming_ = true;
  const auto self = shared_from_this();
  while (!queue_.empty()) {
    Command& head = queue_.front();
    switch (head.kind) {
      case Command::kStretch: time_ = std::max(time_ + head.stretch.add, head.stretch.least); break;
      case Command::kSpan: Span(head.seconds, head.not_before, head.name, head.label); break;
      case Command::kCall: head.fn(time_); break;  // may push, never pops
      case Command::kWait:
        if (!head.point->known()) {
          resuming_ = false;
          head.point->Then([self] { self->Resume(); });
          return;
        }
        PassWait(head.point->time(), head.name);
        break;
    }
    queue_.pop_front();
  }
  resuming_ = false;
}

}  // namespace twofold::sim
