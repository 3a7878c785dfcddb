// Virtual time without a simulator: points in time that may not be known yet, and streams that advance through them.
//
// A stream's durations are added up lazily: a thousand kernels cost a thousand additions and no event. A stream stops
// only where it waits for something that others decide (a collective), and goes on when that point becomes known.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "core/base/check.h"
#include "sim/spread.h"

namespace twofold::sim {

// A moment in seconds of virtual time; set once. Waiters run in the order in which they were added. `spread`: how far
// ranks of a class are apart then.
class TimePoint {
 public:
  TimePoint() = default;
  explicit TimePoint(double time, const Spread& spread = {}) : time_(time), spread_(spread), known_(true) {}
  bool known() const { return known_; }
  double time() const {
    TWOFOLD_CHECK(known_, "the time of this point is not known yet");
    return time_;
  }
  const Spread& spread() const { return spread_; }
  void Resolve(double time, const Spread& spread = {});
  void Then(absl::AnyInvocable<void()> fn);  // at once if the time is known

  int64_t node = -1;  // for a Timeline::Observer: what the point follows

 private:
  double time_ = 0;
  Spread spread_;
  bool known_ = false;
  absl::InlinedVector<absl::AnyInvocable<void()>, 1> waiters_;
};
using TimePointPtr = std::shared_ptr<TimePoint>;

// How far ranks of a class are apart in a span: the standard deviation of its seconds, and the spread of whoever lets
// it begin.
struct Apart {
  double deviation = 0;
  Spread issuer = {};
};

// Create with std::make_shared: a stream keeps itself alive while it resumes, even if its owner releases it meanwhile.
class Timeline : public std::enable_shared_from_this<Timeline> {
 public:
  // Called for each named span when its place in time is known. The texts must outlive the simulation.
  using Tracer = std::function<void(std::string_view name, std::string_view label, std::string_view shape, double start,
                                    double end)>;
  // Called likewise for each wait with a name, for the time that the stream was idle because of it.
  using WaitTracer = std::function<void(std::string_view name, double start, double end)>;

  // Told of all that is put on a line, in the order of the calls, for whoever keeps a record of what follows what.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void Advances(const Timeline& line, double seconds, double not_before, std::string_view name) = 0;
    virtual void Waits(const Timeline& line, const TimePoint& point) = 0;
    virtual void Records(const Timeline& line, TimePoint& point) = 0;
  };
  void SetObserver(Observer* observer) { observer_ = observer; }  // null: nobody. It must outlive the line's last call

  // Busy for `seconds`, starting no earlier than `not_before`, when its issuer is ready. With a name, it is a traced
  // span; the label says what the span is part of, the shape how large its work is.
  void Advance(double seconds, double not_before = 0, std::string_view name = {}, std::string_view label = {},
               const Apart& apart = {}, std::string_view shape = {});
  void NotBefore(double time, const Spread& issuer = {}) { Advance(0, time, {}, {}, {0, issuer}); }
  // Idle until `point`; counted as stalled. `name`: what the point belongs to; it must outlive the simulation.
  void WaitFor(const TimePointPtr& point, std::string_view name = {});
  TimePointPtr Record();                                // the point after everything queued so far
  void Call(absl::AnyInvocable<void(double time)> fn);  // calls fn when the stream reaches this place

  void Together();  // from this place on, ranks of a class are no longer apart

  // Drops everything queued, and goes on at `time`, or at its present time if that is later. What it waited for may
  // stay unknown. One of its own calls may reset it, too.
  void Reset(double time);

  bool blocked() const { return head_ < queue_.size(); }  // waiting for a point that is not known
  double time() const {                                   // the stream's present time
    TWOFOLD_CHECK(!blocked(), "the stream waits for a point that is not known yet");
    return time_;
  }
  const Spread& spread() const { return spread_; }  // at its present time
  double stalled() const { return stalled_; }       // up to its present time
  void SetTracer(Tracer tracer, WaitTracer waits = nullptr) {
    tracer_ = std::move(tracer), wait_tracer_ = std::move(waits);
  }

 private:
  // t -> max(t + add, least): any sequence of untraced spans combines to one of these. The spread is that of both
  // having come (AfterWaiting).
  struct Stretch {
    double add = 0, least = 0, deviation = 0;
    Spread of_least = {};
  };
  struct Command {
    enum Kind { kStretch, kSpan, kWait, kCall } kind;
    Stretch stretch{};
    double seconds = 0, not_before = 0;   // kSpan
    Apart apart{};                        // kSpan
    std::string_view name, label, shape;  // kSpan; kWait has a name
    TimePointPtr point;
    absl::AnyInvocable<void(double)> fn;
  };
  void Push(Command&& command);
  void Resume();
  void Span(double seconds, double not_before, std::string_view name, std::string_view label, const Apart& apart,
            std::string_view shape);
  void Pass(double seconds, double not_before, const Apart& apart);
  void WaitUntil(double time, const Spread& spread);
  void PassWait(const TimePoint& until, std::string_view name);

  TimePointPtr NewRecord();
  void ResumeAfter(const TimePointPtr& point);

  double time_ = 0, stalled_ = 0;
  Spread spread_;
  bool resuming_ = false;
  int resets_ = 0;
  // Commands from head_ on; the first is a wait for an unknown point, or there are none. Those before it are done;
  // their places are used again once all are done.
  std::vector<Command> queue_;
  size_t head_ = 0;
  Tracer tracer_;
  WaitTracer wait_tracer_;
  Observer* observer_ = nullptr;
};

}  // namespace twofold::sim
