#include "experiments/program/calibrate/measure_gpu.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "experiments/program/calibrate/measure_kernels.h"

namespace twofold::calibrate {
namespace {

constexpr double kSampleSeconds = 400e-6;  // shortest sample, if enough calls are allowed
constexpr int kFewestCalls = 4, kMostCalls = 40, kTinyCalls = 2;
constexpr double kFewerCallsFrom = 4e-3;  // seconds: a call this long is sampled alone
constexpr double kBlockSeconds = 1e-3;    // of the first blocker
constexpr int kBlockers = 4;              // each four times as long as the previous one
constexpr int kPools = 12;  // pools that memory must hold: inputs, outputs and state of three types, and spare room
constexpr Bytes kMostPool = MiB(4096), kTinyPool = MiB(4);

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int CallsFor(double seconds, bool tiny) {
  if (tiny) return kTinyCalls;
  if (seconds > kFewerCallsFrom) return 1;
  return std::clamp(static_cast<int>(kSampleSeconds / std::max(seconds, 1e-9)), kFewestCalls, kMostCalls);
}

profile::Timing TimingOf(const std::vector<double>& samples) {
  const Spread spread = SpreadOf(samples);
  constexpr double kLeast = 1e-9;  // lower bound for differences of times, which may vanish
  profile::Timing t;
  t.set_seconds(std::max(spread.median, kLeast)), t.set_low(std::clamp(spread.low, kLeast, t.seconds())),
      t.set_high(std::max(spread.high, t.seconds()));
  return t;
}

// The rate for `bytes` transferred in each of these times, after subtracting the time of a tiny transfer.
profile::Link LinkOf(double bytes, const std::vector<double>& times, const std::vector<double>& small) {
  profile::Link link;
  *link.mutable_latency() = TimingOf(small);
  std::vector<double> rates;
  for (const double s : times) rates.push_back(bytes / std::max(s - link.latency().seconds(), s / 100));
  const Spread spread = SpreadOf(rates);
  link.set_bytes_per_second(spread.median), link.set_low(spread.low), link.set_high(spread.high);
  return link;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuBench>> GpuBench::Make(const spec::Cuda& cuda, bool tiny) {
  spec::Spec spec;
  *spec.mutable_cuda() = cuda;
  const absl::StatusOr<host::CudaChoice> choice = host::ChooseCuda(spec);
  if (!choice.ok()) return choice.status();
  return std::unique_ptr<GpuBench>(new GpuBench(*choice, tiny));
}

GpuBench::GpuBench(const host::CudaChoice& choice, bool tiny)
    : tiny_(tiny),
      source_(host::NewGpuSource(choice.gpus[0], Bytes(0), reserved_)),
      host_source_(host::NewPinnedSource(choice.gpus[0], Bytes(0))),
      allocator_(*source_, 0),
      host_allocator_(*host_source_, 0, "host memory") {
  const auto observed = [this]() -> host::CudaObservers::Observed {
    if (!observe_) return nullptr;
    return [this](double begin, double end) { observed_.emplace_back(begin, end); };
  };
  rank_ = host::NewCudaDevice(allocator_, host_allocator_, choice, choice.gpus[0], 0,
                              {.operation = [observed](const ops::Op&) { return observed(); },
                               .transfer = [observed](std::string_view, Bytes) { return observed(); }});
  transfers_ = device().NewStream("transfers");
  const Bytes pool = tiny ? kTinyPool : std::min(kMostPool, host::FreeMemoryOf(choice.gpus[0]) / kPools);
  constexpr int64_t kMostColumns = 16384;  // of an embedding
  most_elements_ = pool.value() / 4;
  arena_ = std::make_unique<GpuArena>(device(),
                                      Arena::Sizes{.wide = pool, .narrow = pool, .state = pool, .narrow_state = pool},
                                      tiny ? Operands::kIds : std::min(kGpuVocabulary, most_elements_ / kMostColumns));
  const int64_t side = tiny ? 16 : 4096;
  blocker_.push_back(ops::MatMul{.a = arena_->Input({side, side}, DType::kBF16),
                                 .b = arena_->Input({side, side}, DType::kBF16),
                                 .out = arena_->Output({side, side}, DType::kBF16)});
  blocker_.push_back(ops::Add{arena_->Input({4 * side, side}, DType::kBF16),
                              arena_->Input({4 * side, side}, DType::kBF16),
                              arena_->Output({4 * side, side}, DType::kBF16)});
  for (int i = 0; i < 3; ++i) {
    observe_ = true, observed_.clear();
    for (const ops::Op& op : blocker_) device().Launch(device().compute(), op);
    rank_.tell_observed();
    observe_ = false;
    blocker_seconds_ = observed_.back().second - observed_.front().first;
  }
}

void GpuBench::Block(double seconds) {
  const int times =
      std::clamp(static_cast<int>(std::ceil(seconds / std::max(blocker_seconds_, 1e-7))), 1, tiny_ ? 2 : 200);
  for (int i = 0; i < times; ++i) {
    for (const ops::Op& op : blocker_) device().Launch(device().compute(), op);
  }
}

void GpuBench::Try(const Case& of) {
  const ops::Op op = of.make(*arena_);
  device().Launch(device().compute(), op);
  device().compute().Synchronize();
}

GpuBench::Sample GpuBench::Time(const Case& of, int calls) {
  std::vector<ops::Op> ops;
  for (int i = 0; i < calls; ++i) ops.push_back(of.make(*arena_));
  const ops::Op mark = ops::Fill{.out = arena_->Output({1}, DType::kF32)};
  Sample sample{};
  double block = kBlockSeconds;
  for (int i = 0; i < kBlockers; ++i, block *= 4) {
    observed_.clear();
    Block(block);
    observe_ = true;
    device().Launch(device().compute(), mark);
    observe_ = false;
    const double start = Now();
    for (const ops::Op& op : ops) device().Launch(device().compute(), op);
    const double end = Now();
    observe_ = true;
    device().Launch(device().compute(), mark);
    observe_ = false;
    rank_.tell_observed();
    sample = {std::max(observed_[1].first - observed_[0].second, 1e-9) / calls, (end - start) / calls};
    if (end < observed_[0].second || tiny_) return sample;
  }
  ++late_;
  return sample;
}

double GpuBench::Added(int64_t n) {
  const Case add{[n](Operands& a) {
    return ops::Add{a.Input({n}, DType::kF32), a.Input({n}, DType::kF32), a.Output({n}, DType::kF32)};
  }};
  return Time(add, tiny_ ? kTinyCalls : kMostCalls).seconds;
}

void GpuBench::MeasureHost(profile::Gpu& gpu, int rounds) {
  const int calls = tiny_ ? kTinyCalls : kMostCalls;
  const Case least{[](Operands& a) { return ops::Fill{.out = a.Output({1}, DType::kF32)}; }};
  const int64_t n = tiny_ ? 1024 : int64_t{4} << 20;
  const Tensor item = arena_->Input({1}, DType::kF32);
  std::vector<double> kernel, launch, gap, allocation, read_back;
  for (int round = 0; round < rounds; ++round) {
    const Sample sample = Time(least, calls);
    kernel.push_back(sample.seconds), launch.push_back(sample.launch);
    gap.push_back(2 * Added(n) - Added(2 * n));  // for a time of a + b n this is a
    device().compute().Synchronize();
    double start = Now();
    for (int i = 0; i < calls; ++i) device().NewTensor(Shape{n}, DType::kF32, Category::kOther);
    allocation.push_back((Now() - start) / calls);
    start = Now();
    device().Item(item, {.value = 0, .what = "nothing"});
    read_back.push_back(Now() - start);
  }
  *gpu.mutable_kernel() = TimingOf(kernel), *gpu.mutable_launch() = TimingOf(launch),
  *gpu.mutable_gap() = TimingOf(gap);
  *gpu.mutable_allocation() = TimingOf(allocation), *gpu.mutable_read_back() = TimingOf(read_back);
}

double GpuBench::Transfers(const Tensor& from, const Tensor& to) {
  device().compute().Synchronize();
  observed_.clear();
  observe_ = true;
  device().Transfer(*transfers_, from, to);
  observe_ = false;
  rank_.tell_observed();
  return observed_[0].second - observed_[0].first;
}

void GpuBench::MeasureCopies(profile::Gpu& gpu, int rounds) {
  const int64_t large = tiny_ ? 1 << 16 : int64_t{256} << 20, small = 8;
  Tensor here = device().NewHostTensor({large}, DType::kU8, Category::kOther);
  const auto bytes = [&](int64_t n) { return arena_->Output({n}, DType::kU8); };
  const auto measure = [&](auto&& transfer) {
    std::vector<double> times, least;
    for (int round = 0; round <= rounds; ++round) {
      const double s = transfer(large), l = transfer(small);
      if (round > 0) times.push_back(s), least.push_back(l);  // skips the first touches
    }
    return LinkOf(static_cast<double>(large), times, least);
  };
  *gpu.mutable_within() = measure([&](int64_t n) { return Transfers(bytes(n), bytes(n)); });
  *gpu.mutable_to_device() = measure([&](int64_t n) { return Transfers(here.Slice(0, n), bytes(n)); });
  *gpu.mutable_to_host() = measure([&](int64_t n) { return Transfers(bytes(n), here.Slice(0, n)); });
}

GpuSamples MeasureGpuKernels(GpuBench& bench, const std::vector<const Case*>& cases, Seconds budget, int most_rounds,
                             const std::function<void(double)>& progress) {
  std::vector<double> seconds;  // of a sample, by case
  std::vector<int> calls;
  for (size_t i = 0; i < cases.size(); ++i) {
    bench.Try(*cases[i]);
    const double once = bench.Time(*cases[i], 1).seconds;
    calls.push_back(CallsFor(once, bench.tiny()));
    seconds.push_back(once * calls.back() + kBlockSeconds);
    if (i % 64 == 0) progress(0.3 * static_cast<double>(i) / static_cast<double>(cases.size()));
  }
  const std::vector<int> rounds = RoundsWithin(seconds, budget, most_rounds);
  double all = 0, done = 0;
  for (size_t i = 0; i < cases.size(); ++i) all += rounds[i] * seconds[i];
  GpuSamples samples{Samples(cases.size()), Samples(cases.size())};
  for (int round = 0; round < most_rounds; ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      if (round >= rounds[i]) continue;
      const GpuBench::Sample s = bench.Time(*cases[i], calls[i]);
      samples.seconds[i].push_back(s.seconds), samples.launches[i].push_back(s.launch);
      done += seconds[i];
      if (i % 64 == 0) progress(0.3 + 0.7 * done / all);
    }
  }
  progress(1);
  return samples;
}

}  // namespace twofold::calibrate
