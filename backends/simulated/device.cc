#include "backends/simulated/device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <tuple>
#include <utility>

#include "core/device/kernel_names.h"
#include "sim/cost/kernel_table.h"

namespace twofold {
namespace {

class SimulatedStream : public Stream {
 public:
  SimulatedStream(SimulatedRank& rank, sim::Timeline& line) : rank_(rank), line_(line) {}

  Event Record() override {
    if (&line_ == &rank_.compute()) rank_.Flush();
    return Event(std::make_shared<SimulatedPoint>(rank_, line_.Record()));
  }
  void WaitFor(const Event& event) override {
    auto* state = static_cast<SimulatedPoint*>(event.state());
    if (&line_ == &rank_.compute()) rank_.Flush();
    if (state == nullptr) return;
    if (&line_ == &rank_.host()) return state->Wait();  // a CPU's stream is the host, which must stop
    line_.NotBefore(rank_.host().time(),
                    rank_.host().spread());  // before that, the stream was idle because the host had issued nothing
    line_.WaitFor(state->point(), state->stream());
  }
  void Synchronize() override {
    if (&line_ == &rank_.compute()) rank_.Flush();
    if (&line_ != &rank_.host()) rank_.HostWait(line_.Record(), [this] { return rank_.Behind("its stream"); });
  }
  Seconds stalled() override { return Seconds(line_.stalled()); }
  sim::Timeline& line() { return line_; }

 private:
  SimulatedRank& rank_;
  sim::Timeline& line_;
};

// A stream for transfers, which is neither the compute stream nor the host.
class SideStream : public SimulatedStream {
 public:
  SideStream(SimulatedRank& rank, std::shared_ptr<sim::Timeline> line, std::string_view name)
      : SimulatedStream(rank, *line),
        rank_(rank),
        own_(std::move(line)),
        name_(name),
        exceptions_(std::uncaught_exceptions()) {}
  // Waits for its transfers. If an exception is leaving the rank's function or the run has failed, drops the remaining
  // transfers instead, since their memory is being freed.
  ~SideStream() override {
    if (std::uncaught_exceptions() > exceptions_) *ended_ = true;
    try {
      if (!*ended_ && !rank_.engine().failed()) Synchronize();
    } catch (const RankFailure&) {  // the run has failed; the engine knows the cause
    }
    *ended_ = true;
  }

  // With REAL data, the bytes are copied when the stream reaches the end of the transfer.
  void Transfer(Seconds seconds, const Tensor& from, const Tensor& to) {
    own_->NotBefore(rank_.host().time(), rank_.host().spread());
    const bool traced = rank_.trace().enabled(), real = rank_.machine().real;
    if (!traced && !real) return own_->Advance(seconds.value(), 0, "transfer");
    auto start = std::make_shared<double>(0);
    own_->Call([start](double time) { *start = time; });
    own_->Advance(seconds.value(), 0, "transfer");
    own_->Call([this, ended = ended_, start, from, to, traced, real](double time) {
      if (*ended) return;
      if (real) std::memcpy(to.raw(), from.raw(), static_cast<size_t>(from.bytes().value()));
      if (traced) rank_.trace().Add({name_, "transfer", Seconds(*start), Seconds(time), from.bytes(), Seconds()});
    });
  }

 private:
  SimulatedRank& rank_;
  const std::shared_ptr<sim::Timeline> own_;
  const std::string name_;
  const int exceptions_;
  const std::shared_ptr<bool> ended_ = std::make_shared<bool>(false);
};

}  // namespace

// The CPU's kernels without their time.
class SimulatedDevice::Arithmetic : public CpuDevice {
 public:
  Arithmetic(CachingAllocator& allocator, int threads) : CpuDevice(allocator, threads), scratch_(source_, -1) {}

  void Compute(const ops::Op& op, Tensor workspace) {
    // The modelled device may need a smaller workspace than the CPU kernels.
    const Bytes bytes = ops::Workspace(op, DeviceKind::kCpu, threads()),
                given = workspace.empty() ? Bytes(0) : workspace.bytes();
    if (given < bytes) workspace = Allocate(scratch_, Shape{bytes.value()}, DType::kU8, Category::kOther);
    Run(compute(), op, std::move(workspace));
  }

 private:
  MallocSource source_;
  CachingAllocator scratch_;  // not counted as the rank's memory
};

SimulatedDevice::SimulatedDevice(SimulatedRank& rank, CachingAllocator& allocator, CachingAllocator& host,
                                 CostModel& costs, const host::HostLink& link, int threads)
    : rank_(rank),
      allocator_(allocator),
      host_(host),
      costs_(costs),
      link_(link),
      threads_(threads),
      compute_(std::make_unique<SimulatedStream>(rank, rank.compute())) {
  if (rank.machine().real) arithmetic_ = std::make_unique<Arithmetic>(allocator, threads);
  if (!rank.machine().graphs) return;
  graphs_ = std::make_unique<GraphLaunches<Launched>>();
  rank.SetFlush([this] { FlushGraphs(); });
  allocator_.SetBeforeRelease([this] { FlushGraphs(); });
}

SimulatedDevice::~SimulatedDevice() {
  if (graphs_ == nullptr) return;
  rank_.SetFlush(nullptr);
  allocator_.SetBeforeRelease(nullptr);
}

int64_t SimulatedDevice::settling() const { return graphs_ == nullptr ? 0 : graphs_->sections.settling(); }

std::unique_ptr<Stream> SimulatedDevice::NewStream(std::string_view name) {
  return std::make_unique<SideStream>(rank_, rank_.NewLine(name), name);
}

void SimulatedDevice::Copy(Stream& stream, Tensor from, Tensor to) {
  const double launch = rank_.machine().gpu ? rank_.machine().launch_seconds : 0;
  const Seconds seconds = link_.Time(from, to, costs_);
  taken_ += launch + seconds.value();
  if (launch > 0) rank_.host().Advance(launch);
  static_cast<SideStream&>(stream).Transfer(seconds, from, to);
}

// The end of every 64th launch is kept, so that the others cost nothing.
void SimulatedDevice::WaitForPlace(Stream& stream) {
  constexpr int kFew = 64;
  if (!rank_.machine().gpu || rank_.machine().pending_launches == 0 || &stream != compute_.get()) return;
  if (++launched_ < kFew) return;
  launched_ = 0;
  marks_.push_back(rank_.compute().Record());
  if (static_cast<int>(marks_.size()) * kFew < rank_.machine().pending_launches) return;
  rank_.HostWait(marks_.front(), [this] { return rank_.Behind("a place for a launch on its compute stream"); });
  marks_.pop_front();
}

void SimulatedDevice::Charge(Stream& stream, const ops::Op& op, const Tensor& workspace) {
  const bool kept = graphs_ != nullptr && &stream == compute_.get();
  if (!kept) WaitForPlace(stream);
  Estimate e = costs_.Time(op);
  const double factor = rank_.slowdown();
  const ops::KernelKey key = ops::Key(op);
  const std::string_view name = key.name;
  sums_.seconds += e.seconds.value() * factor;
  const auto [place, is_new] = places_.try_emplace(name.data(), sums_.spreads.size());
  if (is_new) sums_.spreads.emplace_back();
  Spread& spread = sums_.spreads[place->second];
  spread.below += (e.seconds - e.low).value() * factor;
  spread.above += (e.high - e.seconds).value() * factor;
  const bool named = rank_.trace().enabled() || rank_.graph() != nullptr;
  rank_.Launches(name);
  if (e.extrapolated) {
    auto it = sums_.extrapolated.find(name);
    if (it == sums_.extrapolated.end()) it = sums_.extrapolated.emplace(name, Extrapolated::mapped_type()).first;
    ++it->second[key.dims];
  }
  double host_seconds = rank_.machine().host_seconds * factor;
  if (rank_.machine().gpu) host_seconds = e.launch ? e.launch->value() : rank_.machine().launch_seconds;
  double seconds = e.seconds.value() * factor;
  if (!rank_.communicating().none() && &stream == compute_.get()) {
    seconds = rank_.communicating().Take(seconds, [&](const BesideIt& takes) { return costs_.Slowdown(op, takes); });
    rank_.TookBriefly(rank_.communicating().SlowedBriefly());
  }
  taken_ += host_seconds + seconds;
  const double differ = CountsFlops(name) ? rank_.machine().speed_spread : 0;
  const std::string_view shown = named ? rank_.trace().NameOf(name) : std::string_view();
  std::string_view shape;
  if (rank_.trace().enabled()) {
    shape = rank_.trace().Kept(ops::ShapeText(key));
    const Range common = costs_.common();
    const ops::Cost cost = ops::CostOf(op);
    rank_.trace().Expect(shown, shape,
                         {.calls = 1,
                          .seconds = e.seconds.value(),
                          .low = e.low.value() * common.low,
                          .high = e.high.value() * common.high,
                          .flops = cost.flops.value(),
                          .bytes = cost.bytes().value(),
                          .source = e.source});
  }
  const Launched launch{seconds, host_seconds, differ * seconds, shown, rank_.trace().label(), shape};
  if (!kept) {
    if (host_seconds > 0) rank_.host().Advance(host_seconds);
    return Issue(stream, launch);
  }
  graphs_->sections.Add(ops::IdentityOf(op, workspace));
  graphs_->kept.push_back({.launch = launch, .call = nullptr});
  if (graphs_->sections.full()) FlushGraphs();
}

void SimulatedDevice::Issue(Stream& stream, const Launched& launch) {
  static_cast<SimulatedStream&>(stream).line().Advance(launch.seconds, rank_.host().time(), launch.name, launch.label,
                                                       {launch.deviation, rank_.host().spread()}, launch.shape);
}

void SimulatedDevice::FlushGraphs() {
  const auto kept = std::exchange(graphs_->kept, {});
  const size_t operations = graphs_->sections.size();
  const LaunchSections::Decision decision = graphs_->sections.Close();
  const bool by_graph = decision.what == LaunchSections::Do::kReplay;
  const SimulatedMachine::Graphs& host = *rank_.machine().graphs;
  if (by_graph) {
    WaitForPlace(*compute_);
    const auto changed = static_cast<double>(decision.changed.size()), n = static_cast<double>(operations);
    rank_.host().Advance(n * (host.operation_seconds + host.node_seconds) + host.launch_seconds +
                         changed * rank_.machine().launch_seconds);
  }
  for (const auto& [launch, call] : kept) {
    if (call) {
      call();
      continue;
    }
    if (!by_graph) {
      WaitForPlace(*compute_);
      rank_.host().Advance(launch.host_seconds);
    }
    Issue(*compute_, launch);
  }
}

void SimulatedDevice::Run(Stream& stream, const ops::Op& op, Tensor workspace) {
  const bool by_host = !rank_.machine().gpu && &stream != compute_.get();  // as on a CPU, after the stream's transfers
  if (by_host) stream.Synchronize();
  Charge(by_host ? *compute_ : stream, op, workspace);
  if (arithmetic_ == nullptr) return;
  rank_.CatchUp();
  const sim::FlightRecord::Aside aside(rank_.engine().record());  // a long operation is not a hang
  arithmetic_->Compute(op, std::move(workspace));
}

void SimulatedDevice::Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) {
  rank_.Flush();
  if (rank_.machine().uploads) {
    rank_.host().Advance(rank_.machine().launch_seconds);
    rank_.compute().Advance(link_.Time(dst, dst, costs_).value(), rank_.host().time());
  }
  if (arithmetic_ == nullptr) return;
  rank_.CatchUp();
  arithmetic_->Upload(dst, fill);
}

void SimulatedDevice::ReadBack() {
  compute_->Synchronize();
  if (rank_.machine().read_back_seconds > 0) rank_.host().Advance(rank_.machine().read_back_seconds);
}

void SimulatedDevice::Download(const Tensor& src, std::span<std::byte> dst) {
  ReadBack();
  if (arithmetic_ != nullptr) arithmetic_->Download(src, dst);
}

double SimulatedDevice::Item(const Tensor& scalar, StandIn stand_in) {
  ReadBack();
  return arithmetic_ != nullptr ? arithmetic_->Item(scalar, stand_in) : stand_in.value;
}

void SimulatedDevice::WhenReached(std::function<void(Seconds)> fn) {
  const auto call = [this, fn = std::move(fn)] {
    rank_.compute().Call([fn, host = rank_.host().time()](double time) { fn(Seconds(std::max(time, host))); });
  };
  if (graphs_ == nullptr || graphs_->kept.empty()) return call();
  graphs_->kept.push_back({.launch = {}, .call = call});
}

// The others may be there sooner by all the time that its kernels, its transfers and their launches take, at most. For
// its collectives, SimulatedWork says by how much.
void SimulatedDevice::Briefly(absl::FunctionRef<void()> work) {
  const double before = taken_;
  rank_.SetBrief(true);
  work();
  rank_.SetBrief(false);
  rank_.TookBriefly(taken_ - before);
}

std::optional<double> SimulatedDevice::Difference(const ops::Op& a, const ops::Op& b) {
  const Estimate of_a = costs_.Time(a), of_b = costs_.Time(b);
  if (of_a.launch != of_b.launch || ops::Workspace(a, kind(), threads()) != ops::Workspace(b, kind(), threads()))
    return std::nullopt;
  if (of_a.seconds == of_b.seconds) {
    const bool alike = of_a.low == of_b.low && of_a.high == of_b.high && !of_a.extrapolated && !of_b.extrapolated;
    return alike ? std::optional(0.0) : std::nullopt;
  }
  const double more = (of_a.seconds - of_b.seconds).value();
  return more / std::max(of_a.seconds, of_b.seconds).value();
}

void SimulatedDevice::Repeat(const Sums& before, int64_t times) {
  const auto n = static_cast<double>(times);
  const auto add = [n](double& sum, double then) { sum += n * (sum - then); };
  add(sums_.seconds, before.seconds);
  for (size_t i = 0; i < sums_.spreads.size(); ++i) {
    const Spread then = i < before.spreads.size() ? before.spreads[i] : Spread();
    add(sums_.spreads[i].below, then.below), add(sums_.spreads[i].above, then.above);
  }
  for (auto& [kernel, shapes] : sums_.extrapolated) {
    const auto known = before.extrapolated.find(kernel);
    for (auto& [dims, count] : shapes) {
      const bool was = known != before.extrapolated.end() && known->second.contains(dims);
      count += times * (count - (was ? known->second.at(dims) : 0));
    }
  }
}

Range SimulatedDevice::uncertainty() const {
  if (sums_.seconds == 0) return {};
  const bool squares = costs_.independent();
  double below = 0, above = 0;
  for (const Spread& s : sums_.spreads) {
    below += squares ? s.below * s.below : s.below;
    above += squares ? s.above * s.above : s.above;
  }
  if (squares) below = std::sqrt(below), above = std::sqrt(above);
  return {1 - below / sums_.seconds, 1 + above / sums_.seconds};
}

}  // namespace twofold
