#include "sim/timeline.h"

#include <algorithm>
#include <utility>

namespace twofold::sim {

// The spread when both have come: two moments, and how far ranks are apart then. What has come for the average rank may
// not have come for the slowest.
static Spread AtBoth(double time, const Spread& spread, double other_time, const Spread& other) {
  return other_time > time ? AfterWaiting(spread, other_time - time, other)
                           : AfterWaiting(other, time - other_time, spread);
}

void TimePoint::Resolve(double time, const Spread& spread) {
  TWOFOLD_CHECK(!known_, "a point in time is resolved once");
  time_ = time, spread_ = spread;
  known_ = true;
  for (auto waiters = std::exchange(waiters_, {}); auto& fn : waiters) fn();
}

void TimePoint::Then(absl::AnyInvocable<void()> fn) {
  if (known_) return fn();
  waiters_.push_back(std::move(fn));
}

void Timeline::Advance(double seconds, double not_before, std::string_view name, std::string_view label,
                       const Apart& apart, std::string_view shape) {
  if (observer_ != nullptr) observer_->Advances(*this, seconds, not_before, name);
  const bool traced = tracer_ && !name.empty();
  if (!blocked())
    return traced ? Span(seconds, not_before, name, label, apart, shape) : Pass(seconds, not_before, apart);
  if (traced) {
    return Push({.kind = Command::kSpan,
                 .seconds = seconds,
                 .not_before = not_before,
                 .apart = apart,
                 .name = name,
                 .label = label,
                 .shape = shape});
  }
  if (queue_.back().kind != Command::kStretch) Push({.kind = Command::kStretch});
  Stretch& s = queue_.back().stretch;
  s.add += seconds, s.deviation += apart.deviation;
  s.of_least = AtBoth(s.least, s.of_least, not_before, apart.issuer);
  s.least = std::max(s.least, not_before);
  s.least += seconds, s.of_least.own += apart.deviation;
}

void Timeline::Pass(double seconds, double not_before, const Apart& apart) {
  WaitUntil(not_before, apart.issuer);
  time_ += seconds, spread_.own += apart.deviation;
}

void Timeline::WaitUntil(double time, const Spread& spread) {
  spread_ = AtBoth(time_, spread_, time, spread);
  time_ = std::max(time_, time);
}

void Timeline::Span(double seconds, double not_before, std::string_view name, std::string_view label,
                    const Apart& apart, std::string_view shape) {
  const double start = std::max(time_, not_before);
  Pass(seconds, not_before, apart);
  if (tracer_) tracer_(name, label, shape, start, time_);
}

void Timeline::PassWait(const TimePoint& until, std::string_view name) {
  if (until.time() > time_) {
    stalled_ += until.time() - time_;
    if (wait_tracer_ && !name.empty()) wait_tracer_(name, time_, until.time());
  }
  WaitUntil(until.time(), until.spread());
}

void Timeline::WaitFor(const TimePointPtr& point, std::string_view name) {
  if (observer_ != nullptr) observer_->Waits(*this, *point);
  if (!blocked() && point->known()) return PassWait(*point, name);
  const bool first = !blocked();
  Push({.kind = Command::kWait, .name = name, .point = point});
  if (first) ResumeAfter(point);
}

void Timeline::ResumeAfter(const TimePointPtr& point) {
  point->Then([self = shared_from_this(), resets = resets_] {
    if (self->resets_ == resets) self->Resume();
  });
}

void Timeline::Reset(double time) {
  queue_.clear(), head_ = 0, ++resets_;
  resuming_ = false;  // if one of its own calls resets it, Resume has nothing more to do
  time_ = std::max(time_, time), spread_ = {};
}

TimePointPtr Timeline::Record() {
  TimePointPtr point = NewRecord();
  if (observer_ != nullptr) observer_->Records(*this, *point);
  return point;
}

TimePointPtr Timeline::NewRecord() {
  if (!blocked()) return std::make_shared<TimePoint>(time_, spread_);
  auto point = std::make_shared<TimePoint>();
  Call([this, point](double t) { point->Resolve(t, spread_); });  // called by this line alone
  return point;
}

void Timeline::Call(absl::AnyInvocable<void(double)> fn) {
  if (!blocked()) return fn(time_);
  Push({.kind = Command::kCall, .fn = std::move(fn)});
}

void Timeline::Together() {
  Call([this](double) { spread_ = {.slowest = spread_.slowest}; });
}

void Timeline::Push(Command&& command) {
  constexpr size_t kDone = 64;  // a stream that is never idle must not keep all that it has done
  if (head_ == queue_.size() || (head_ >= kDone && 2 * head_ >= queue_.size()))
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(std::exchange(head_, 0)));
  queue_.push_back(std::move(command));
}

// The point at the head of the queue has become known: proceeds to the next unknown point.
void Timeline::Resume() {
  TWOFOLD_CHECK(!resuming_, "a stream is not resumed while it resumes");
  resuming_ = true;
  const auto self = shared_from_this();
  while (blocked()) {
    Command& head = queue_[head_];
    switch (head.kind) {
      case Command::kStretch: {
        const Stretch& s = head.stretch;
        time_ += s.add, spread_.own += s.deviation;
        WaitUntil(s.least, s.of_least);
        break;
      }
      case Command::kSpan: Span(head.seconds, head.not_before, head.name, head.label, head.apart, head.shape); break;
      case Command::kCall: {
        const int resets = resets_;
        std::exchange(head.fn, nullptr)(time_);  // may push, which moves `head`
        if (resets != resets_) return;
        break;
      }
      case Command::kWait:
        if (!head.point->known()) {
          resuming_ = false;
          ResumeAfter(head.point);
          return;
        }
        PassWait(*head.point, head.name);
        head.point.reset();
        break;
    }
    ++head_;
  }
  resuming_ = false;
}

}  // namespace twofold::sim
