#include "backends/host/emulated_device.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "backends/host/sleep.h"

namespace twofold::host {

class EmulatedDevice::TimeLine {
 public:
  explicit TimeLine(std::function<void()> check) : check_(std::move(check)), time_(SteadyNow()) {}

  // Advances the line by `seconds` of work; returns the new time.
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
  double time() {
    ForgiveLateness();
    return time_;
  }
  const std::function<void()>& check() const { return check_; }

 private:
  // Moves a line that is too late to the current time. Returns the current time.
  double ForgiveLateness() {
    const double now = SteadyNow();
    if (now - time_ > kMostLate) time_ = now;
    return now;
  }

  const std::function<void()> check_;
  double time_;
};

namespace {

// An event whose time is known in advance.
class Moment : public TimedEvent {
 public:
  Moment(double time, const std::function<void()>& check) : time_(time), check_(check) {}
  bool Done() override { return SteadyNow() >= time_; }
  void Wait() override { SleepUntil(time_, check_); }
  double time() const override { return time_; }

 private:
  const double time_;
  const std::function<void()> check_;
};

}  // namespace

class EmulatedDevice::HostStream : public Stream {
 public:
  explicit HostStream(TimeLine& line) : line_(line) {}
  Event Record() override { return Event(std::make_shared<Moment>(line_.time(), line_.check())); }
  void WaitFor(const Event& event) override {
    if (const auto* moment = dynamic_cast<const Moment*>(event.state())) return PassWait(line_.time(), moment->time());
    const double before = event.Done() ? 0 : line_.CatchUp();
    event.Wait();  // throws errors of earlier work
    const auto* timed = dynamic_cast<const TimedEvent*>(event.state());
    const double after = timed != nullptr ? timed->time() : before > 0 ? SteadyNow() : 0;
    PassWait(before > 0 ? before : after, after);
  }
  void Synchronize() override { line_.CatchUp(); }
  Seconds stalled() override { return stalled_; }

 private:
  void PassWait(double before, double after) {
    stalled_ += Seconds(std::max(0.0, after - before));
    line_.NotBefore(after);
  }

  TimeLine& line_;
  Seconds stalled_;
};

class EmulatedDevice::SideStream : public Stream {
 public:
  SideStream(HostStream& host, TimeLine& line, std::string_view name) : host_(host), line_(line), name_(name) {}
  Event Record() override { return Event(std::make_shared<Moment>(time_, line_.check())); }
  void WaitFor(const Event& event) override {
    const auto* timed = dynamic_cast<const TimedEvent*>(event.state());
    if (dynamic_cast<const Moment*>(event.state()) == nullptr) event.Wait();
    const double after = timed != nullptr ? timed->time() : event.state() != nullptr ? SteadyNow() : time_;
    stalled_ += Seconds(std::max(0.0, after - time_));
    time_ = std::max(time_, after);
  }
  void Synchronize() override {
    host_.WaitFor(Record());
    host_.Synchronize();
  }
  Seconds stalled() override { return stalled_; }

  // Adds `seconds` of work, starting when the host has issued it; returns its start.
  double Advance(double seconds) {
    const double start = std::max(time_, line_.time());
    time_ = start + seconds;
    return start;
  }
  const std::string& name() const { return name_; }

 private:
  HostStream& host_;
  TimeLine& line_;
  const std::string name_;
  double time_ = 0;
  Seconds stalled_;
};

EmulatedDevice::EmulatedDevice(CachingAllocator& allocator, CachingAllocator& host, const Costs& costs, int threads,
                               std::function<void()> check)
    : allocator_(allocator),
      host_(host),
      costs_(costs.Make()),
      link_(costs.host_link()),
      threads_(threads),
      line_(std::make_unique<TimeLine>(std::move(check))),
      compute_(std::make_unique<HostStream>(*line_)) {}

EmulatedDevice::~EmulatedDevice() = default;

Stream& EmulatedDevice::compute() { return *compute_; }

std::unique_ptr<Stream> EmulatedDevice::NewStream(std::string_view name) {
  return std::make_unique<SideStream>(*compute_, *line_, name);
}

void EmulatedDevice::Download(const Tensor&, std::span<std::byte>) { line_->CatchUp(); }

void EmulatedDevice::WriteBytes(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) {
  line_->CatchUp();
  fill({static_cast<std::byte*>(dst.raw()), static_cast<size_t>(dst.bytes().value())});
  line_->NotBefore(SteadyNow());
}

void EmulatedDevice::ReadBytes(const Tensor& src, std::span<std::byte> dst) {
  line_->CatchUp();
  TWOFOLD_CHECK_EQ(static_cast<size_t>(src.bytes().value()), dst.size());
  if (!dst.empty()) std::memcpy(dst.data(), src.raw(), dst.size());
  line_->NotBefore(SteadyNow());
}

double EmulatedDevice::Item(const Tensor& scalar, StandIn stand_in) {
  TWOFOLD_CHECK_EQ(scalar.numel(), 1);
  line_->CatchUp();
  return stand_in.value;
}

void EmulatedDevice::NotBefore(double time) { line_->NotBefore(time); }

double EmulatedDevice::CatchUp() { return line_->CatchUp(); }

void EmulatedDevice::Run(Stream& stream, const ops::Op& op, Tensor) {
  if (&stream != compute_.get()) stream.Synchronize();
  const double seconds = slowdown_ * costs_->Time(op).seconds.value(), start = line_->Advance(seconds);
  if (observer_) observer_(op, start, start + seconds);
}

void EmulatedDevice::Copy(Stream& stream, Tensor from, Tensor to) {
  auto& side = static_cast<SideStream&>(stream);
  const double seconds = link_.Time(from, to, *costs_).value(), start = side.Advance(seconds);
  if (transfer_observer_) transfer_observer_(side.name(), from.bytes(), start, start + seconds);
}

}  // namespace twofold::host
