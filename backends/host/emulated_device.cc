#include "backends/host/emulated_device.h"

#include <algorithm>
#include <utility>

#include "backends/host/sleep.h"

namespace twofold::host {

class EmulatedDevice::TimeLine {
 public:
  explicit TimeLine(std::function<void()> check) : check_(std::move(check)), time_(SteadyNow()) {}

  // Busy for `seconds` from where the line stands; returns that.
  double Advance(double seconds) {
    const double now = ForgiveLateness(), start = time_;
    time_ = start + seconds;
    if (time_ - now > kShort) SleepUntil(time_, check_);
    return start;
  }
  double CatchUp() {
    if (time_ > ForgiveLateness()) SleepUntil(time_, check_);
    return time_;
  }
  void NotBefore(double time) { time_ = std::max(time_, time); }

 private:
  // A line that is too late goes on from now, which is returned.
  double ForgiveLateness() {
    const double now = SteadyNow();
    if (now - time_ > kMostLate) time_ = now;
    return now;
  }

  const std::function<void()> check_;
  double time_;
};

class EmulatedDevice::HostStream : public Stream {
 public:
  explicit HostStream(TimeLine& line) : line_(line) {}
  Event Record() override {
    line_.CatchUp();
    return Event();
  }
  void WaitFor(const Event& event) override {
    const double before = event.Done() ? 0 : line_.CatchUp();
    event.Wait();  // throws what went wrong before the point
    const auto* timed = dynamic_cast<const TimedEvent*>(event.state());
    const double after = timed != nullptr ? timed->time() : before > 0 ? SteadyNow() : 0;
    if (before > 0) stalled_ += Seconds(std::max(0.0, after - before));
    line_.NotBefore(after);
  }
  void Synchronize() override { line_.CatchUp(); }
  Seconds stalled() override { return stalled_; }

 private:
  TimeLine& line_;
  Seconds stalled_;
};

EmulatedDevice::EmulatedDevice(CachingAllocator& allocator, std::unique_ptr<CostModel> costs, int threads,
                               std::function<void()> check)
    : allocator_(allocator),
      costs_(std::move(costs)),
      threads_(threads),
      line_(std::make_unique<TimeLine>(std::move(check))),
      compute_(std::make_unique<HostStream>(*line_)) {}

EmulatedDevice::~EmulatedDevice() = default;

Stream& EmulatedDevice::compute() { return *compute_; }

std::unique_ptr<Stream> EmulatedDevice::NewStream(std::string_view) { return std::make_unique<HostStream>(*line_); }

void EmulatedDevice::Download(const Tensor&, std::span<std::byte>) { line_->CatchUp(); }

double EmulatedDevice::Item(const Tensor& scalar, StandIn stand_in) {
  TWOFOLD_CHECK_EQ(scalar.numel(), 1);
  line_->CatchUp();
  return stand_in.value;
}

double EmulatedDevice::CatchUp() { return line_->CatchUp(); }

void EmulatedDevice::Run(Stream&, const ops::Op& op, Tensor) {
  const double seconds = costs_->Time(op).seconds.value(), start = line_->Advance(seconds);
  if (observer_) observer_(op, start, start + seconds);
}

}  // namespace twofold::host
