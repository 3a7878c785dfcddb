#include "backends/simulated/device.h"

#include <cmath>
#include <utility>

namespace twofold {
namespace {

class SimulatedStream : public Stream {
 public:
  SimulatedStream(SimulatedRank& rank, sim::Timeline& line) : rank_(rank), line_(line) {}

  Event Record() override { return Event(std::make_shared<SimulatedPoint>(rank_, line_.Record())); }
  void WaitFor(const Event& event) override {
    auto* state = static_cast<SimulatedPoint*>(event.state());
    if (state == nullptr) return;
    if (&line_ == &rank_.host()) return state->Wait();  // a CPU's stream is the host, which must stop
    line_.WaitFor(state->point());
  }
  void Synchronize() override {
    if (&line_ != &rank_.host()) rank_.HostWait(line_.Record(), [this] { return rank_.Behind("its stream"); });
  }
  Seconds stalled() override { return Seconds(line_.stalled()); }
  sim::Timeline& line() { return line_; }

 private:
  SimulatedRank& rank_;
  sim::Timeline& line_;
};

class OwnStream : public SimulatedStream {
 public:
  OwnStream(SimulatedRank& rank, std::shared_ptr<sim::Timeline> line)
      : SimulatedStream(rank, *line), owned_(std::move(line)) {}

 private:
  std::shared_ptr<sim::Timeline> owned_;
};

}  // namespace

// The CPU's kernels without its time.
class SimulatedDevice::Arithmetic : public CpuDevice {
 public:
  Arithmetic(CachingAllocator& allocator, int threads) : CpuDevice(allocator, threads), scratch_(source_, -1) {}

  void Compute(const ops::Op& op, Tensor workspace) {
    if (workspace.empty()) {  // the modelled device needs none; the kernels here may
      const Bytes bytes = ops::Workspace(op, DeviceKind::kCpu, threads());
      if (bytes.value() > 0) workspace = Allocate(scratch_, Shape{bytes.value()}, DType::kU8, Category::kOther);
    }
    Run(compute(), op, std::move(workspace));
  }

 private:
  MallocSource source_;
  CachingAllocator scratch_;  // outside the rank's ledger
};

SimulatedDevice::SimulatedDevice(SimulatedRank& rank, CachingAllocator& allocator, CostModel& costs, int threads)
    : rank_(rank),
      allocator_(allocator),
      costs_(costs),
      threads_(threads),
      compute_(std::make_unique<SimulatedStream>(rank, rank.compute())) {
  if (rank.machine().real) arithmetic_ = std::make_unique<Arithmetic>(allocator, threads);
}

SimulatedDevice::~SimulatedDevice() = default;

std::unique_ptr<Stream> SimulatedDevice::NewStream(std::string_view) {
  if (!rank_.machine().gpu) return std::make_unique<SimulatedStream>(rank_, rank_.host());
  return std::make_unique<OwnStream>(rank_, std::make_shared<sim::Timeline>());
}

void SimulatedDevice::Charge(Stream& stream, const ops::Op& op) {
  Estimate e = costs_.Time(op);
  const double factor = rank_.machine().slowdown;
  const ops::KernelKey key = ops::Key(op);
  const std::string_view name = key.name;
  seconds_ += e.seconds.value() * factor;
  const auto [place, is_new] = places_.try_emplace(name.data(), spreads_.size());
  if (is_new) spreads_.emplace_back();
  Spread& spread = spreads_[place->second];
  spread.below += (e.seconds - e.low).value() * factor;
  spread.above += (e.high - e.seconds).value() * factor;
  const bool traced = rank_.trace().enabled();
  rank_.Launches(name);
  if (e.extrapolated) {
    auto it = extrapolated_.find(name);
    if (it == extrapolated_.end()) it = extrapolated_.emplace(name, Extrapolated::mapped_type()).first;
    ++it->second[key.dims];
  }
  if (rank_.machine().gpu) rank_.host().Advance(rank_.machine().launch_seconds);
  else if (rank_.machine().host_seconds > 0) rank_.host().Advance(rank_.machine().host_seconds * factor);
  static_cast<SimulatedStream&>(stream).line().Advance(e.seconds.value() * factor, rank_.host().time(),
                                                       traced ? name : std::string_view());
}

void SimulatedDevice::Run(Stream& stream, const ops::Op& op, Tensor workspace) {
  Charge(stream, op);
  if (arithmetic_ == nullptr) return;
  rank_.CatchUp();
  const sim::FlightRecord::Aside aside(rank_.engine().record());  // long operations are no hangs
  arithmetic_->Compute(op, std::move(workspace));
}

void SimulatedDevice::Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) {
  if (arithmetic_ == nullptr) return;
  rank_.CatchUp();
  arithmetic_->Upload(dst, fill);
}

void SimulatedDevice::Download(const Tensor& src, std::span<std::byte> dst) {
  compute_->Synchronize();
  if (arithmetic_ != nullptr) arithmetic_->Download(src, dst);
}

double SimulatedDevice::Item(const Tensor& scalar, StandIn stand_in) {
  compute_->Synchronize();
  return arithmetic_ != nullptr ? arithmetic_->Item(scalar, stand_in) : stand_in.value;
}

Range SimulatedDevice::uncertainty() const {
  if (seconds_ == 0) return {};
  const bool squares = costs_.independent();
  double below = 0, above = 0;
  for (const Spread& s : spreads_) {
    below += squares ? s.below * s.below : s.below;
    above += squares ? s.above * s.above : s.above;
  }
  if (squares) below = std::sqrt(below), above = std::sqrt(above);
  return {1 - below / seconds_, 1 + above / seconds_};
}

}  // namespace twofold
