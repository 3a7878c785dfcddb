// Virtual time without a simulator: points in time that may not be known yet, and streams that advance through them.
//
// A stream's durations add up lazily: a thousand kernels cost a thousand additions and no event. Only where a stream
// waits for something that others decide (a collective) does it stop, and go on when that point becomes known.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/check.h"

namespace twofold::sim {

// Seconds of virtual time, known once. Waiters run in the order they came.
class TimePoint {
 public:
  TimePoint() = default;
  explicit TimePoint(double time) : time_(time), known_(true) {}
  bool known() const { return known_; }
  double time() const {
    TWOFOLD_CHECK(known_, "the time of this point is not known yet");
    return time_;
  }
  void Resolve(double time);
  void Then(std::function<void()> fn);  // at once when the time is known

 private:
  double time_ = 0;
  bool known_ = false;
  std::vector<std::function<void()>> waiters_;
};
using TimePointPtr = std::shared_ptr<TimePoint>;

// Made by std::make_shared: a stream that is going on stays alive until it has, whoever lets go of it meanwhile.
class Timeline : public std::enable_shared_from_this<Timeline> {
 public:
  // Told of each named stretch when its place in time is known. `name` and `label` must outlive the simulation.
  using Tracer = std::function<void(std::string_view name, std::string_view label, double start, double end)>;
  // Told likewise of each wait for something with a name, as far as the stream stood still for it.
  using WaitTracer = std::function<void(std::string_view name, double start, double end)>;

  // Busy for `seconds`, starting no earlier than `not_before`. A name makes it a traced span, and the label
  // says what that is part of.
  void Advance(double seconds, double not_before = 0, std::string_view name = {}, std::string_view label = {});
  void NotBefore(double time) { Advance(0, time); }
  // Idle until `point`; counted as stalled. `name`: what the point is of; it must outlive the simulation.
  void WaitFor(const TimePointPtr& point, std::string_view name = {});
  TimePointPtr Record();                              // the point after all that was given so far
  void Call(std::function<void(double time)> fn);     // when the stream gets here

  bool blocked() const { return !queue_.empty(); }    // waiting for a point that is not known
  double time() const {                               // where the stream stands
    TWOFOLD_CHECK(!blocked(), "the stream waits for a point that is not known yet");
    return time_;
  }
  double stalled() const { return stalled_; }         // up to where it stands
  void SetTracer(Tracer tracer, WaitTracer waits = nullptr) { tracer_ = std::move(tracer), wait_tracer_ = std::move(waits); }

 private:
  // t -> max(t + add, least): any run of untraced stretches is one of these.
  struct Stretch { double add, least; };
  struct Command {
    enum Kind { kStretch, kSpan, kWait, kCall } kind;
    Stretch stretch{};
    double seconds = 0, not_before = 0;  // kSpan
    std::string_view name, label;        // kSpan; kWait has a name
    TimePointPtr point;
    std::function<void(double)> fn;
  };
  void Push(Command command);
  void Resume();
  void Span(double seconds, double not_before, std::string_view name, std::string_view label);
  void PassWait(double until, std::string_view name);

  double time_ = 0, stalled_ = 0;
  bool resuming_ = false;
  std::deque<Command> queue_;  // the first is a wait for an unknown point, or empty
  Tracer tracer_;
  WaitTracer wait_tracer_;
};

}  // namespace twofold::sim
