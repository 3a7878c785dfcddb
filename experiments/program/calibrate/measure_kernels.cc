#include "experiments/program/calibrate/measure_kernels.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "backends/host/processor_use.h"

namespace twofold::calibrate {
namespace {

struct Sample {
  double seconds;  // per call
  double share;    // of its time, waited for a processor by this rank
};

// Seconds for which the calling thread has waited for a processor.
using Waited = std::function<double()>;

// Times `calls` calls on separate operands.
Sample Time(RankContext& ctx, const Case& c, Arena& arena, int calls, const Waited& waited) {
  std::vector<ops::Op> ops;
  ops.reserve(static_cast<size_t>(calls));
  for (int i = 0; i < calls; ++i) ops.push_back(c.make(arena));
  Device& device = ctx.device();
  ctx.world().Barrier().Wait();
  device.compute().Synchronize();
  const double before = waited();
  const Seconds start = ctx.clock().Now();
  for (const ops::Op& op : ops) device.Launch(device.compute(), op);
  device.compute().Synchronize();
  const double seconds = (ctx.clock().Now() - start).value();
  return {seconds / calls, std::min(1.0, (waited() - before) / seconds)};
}

// The element-wise maximum over all ranks, so that all ranks decide alike.
std::vector<double> Agree(RankContext& ctx, const std::vector<double>& values) {
  Tensor t = ctx.device().NewTensor(Shape{static_cast<int64_t>(values.size())}, DType::kF64, Category::kOther);
  ctx.device().Upload(t, [&](std::span<std::byte> bytes) { std::memcpy(bytes.data(), values.data(), bytes.size()); });
  ctx.world().AllReduce(t, ReduceOp::kMax).Wait();
  std::vector<double> agreed(values.size());
  ctx.device().Download(t, std::as_writable_bytes(std::span(agreed)));
  return agreed;
}

constexpr double kSettled = 2e-3;  // seconds: first touches hardly matter in a longer call

int CallsFor(double seconds) { return std::clamp(static_cast<int>(kSample.value() / std::max(seconds, 1e-9)), 1, 100); }

// A product that does not fit a core's private caches, as most products of a step do not.
constexpr int64_t kFixedRows = 256;
constexpr int kFixedSamples = 15;

Case FixedKernel() {
  return {[](Operands& o) -> ops::Op {
    const Shape square{kFixedRows, kFixedRows};
    return ops::MatMul{
        .a = o.Input(square, DType::kF32), .b = o.Input(square, DType::kF32), .out = o.Output(square, DType::kF32)};
  }};
}

// One rank's measurements in one part.
class KernelPart {
 public:
  KernelPart(RankContext& ctx, const KernelPlan& plan)
      : ctx_(ctx), plan_(plan), budget_(plan.repeats.value()), arena_(ctx.device()), samples_(plan.cases.size()) {
    if (plan.waited)
      waited_ = [this] { return plan_.waited(ctx_.rank()); };
    else
      waited_ = [this] { return counter_.Read().waited; };
  }

  Samples Measure() {
    TimeFixedKernel();
    for (std::vector<size_t> due = Due(); !due.empty(); due = Due()) Round(std::move(due));
    TimeFixedKernel();
    samples_.resize(plan_.cases.size() + KernelRows::kMore);
    const Disturbance& d = disturbance_;
    // Ranks repeat together, so only one counts.
    samples_[plan_.cases.size() + KernelRows::kDisturbance] = {d.seen.wall, d.seen.held, d.kept.wall, d.kept.held,
                                                               ctx_.rank() == 0 ? static_cast<double>(d.repeated) : 0};
    if (ctx_.rank() == 0) samples_[plan_.cases.size() + KernelRows::kFixed] = fixed_;
    return std::move(samples_);
  }

 private:
  // Cases with rounds left in this part.
  std::vector<size_t> Due() const {
    std::vector<size_t> due;
    for (size_t i = 0; i < plan_.cases.size(); ++i) {
      if (static_cast<int>(samples_[i].size()) < RoundsOfPart(plan_.rounds[i], i, plan_.part, plan_.parts))
        due.push_back(i);
    }
    return due;
  }

  // One sample of each case, with the share of the rank that waited longest.
  std::vector<Sample> Pass(const std::vector<size_t>& cases) {
    std::vector<Sample> taken;
    std::vector<double> shares;
    for (const size_t i : cases) {
      ctx_.CheckInterrupt();
      taken.push_back(Time(ctx_, plan_.cases[i], arena_, CallsFor(plan_.seconds[i]), waited_));
      shares.push_back(taken.back().share);
    }
    shares = Agree(ctx_, shares);
    for (size_t j = 0; j < taken.size(); ++j) taken[j].share = shares[j];
    return taken;
  }

  // Takes one sample of each case that is kept. All ranks agree on which samples are disturbed and what there is time
  // for.
  void Round(std::vector<size_t> due) {
    std::map<size_t, Sample> kept;
    for (int pass = 0; pass <= kRepeats && !due.empty(); ++pass) {
      const std::vector<Sample> taken = Pass(due);
      std::vector<size_t> again;
      for (size_t j = 0; j < due.size(); ++j) {
        const double seconds = taken[j].seconds * CallsFor(plan_.seconds[due[j]]);
        disturbance_.seen.Add(seconds, taken[j].share);
        const auto [least, first] = kept.emplace(due[j], taken[j]);
        if (!first && taken[j].share < least->second.share) least->second = taken[j];
        if (least->second.share > kDisturbed && pass < kRepeats && Afford(due[j])) again.push_back(due[j]);
      }
      disturbance_.repeated += static_cast<int64_t>(again.size());
      due = std::move(again);
    }
    for (const auto& [i, sample] : kept) {
      samples_[i].push_back(sample.seconds);
      disturbance_.kept.Add(sample.seconds * CallsFor(plan_.seconds[i]), sample.share);
    }
  }

  bool Afford(size_t i) {
    const double seconds = plan_.seconds[i] * CallsFor(plan_.seconds[i]);
    if (seconds > budget_) return false;
    budget_ -= seconds;
    return true;
  }

  // The median of the least disturbed third.
  void TimeFixedKernel() {
    const Case fixed = FixedKernel();
    std::vector<double> seconds, shares;
    Time(ctx_, fixed, arena_, 1, waited_);
    for (int i = 0; i < kFixedSamples; ++i) {
      const Sample sample = Time(ctx_, fixed, arena_, 1, waited_);
      seconds.push_back(sample.seconds), shares.push_back(sample.share);
    }
    seconds = Agree(ctx_, seconds), shares = Agree(ctx_, shares);
    std::vector<size_t> order(kFixedSamples);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return shares[a] < shares[b]; });
    std::vector<double> least;
    for (size_t i = 0; i < kFixedSamples / 3; ++i) least.push_back(seconds[order[i]]);
    fixed_.push_back(Quantile(least, 0.5));
  }

  RankContext& ctx_;
  const KernelPlan& plan_;
  double budget_;  // seconds
  const host::ThreadCounter counter_;
  Waited waited_;
  Arena arena_;
  Samples samples_;
  Disturbance disturbance_;
  std::vector<double> fixed_;
};

}  // namespace

std::string TryKernels(RankContext& ctx, const std::vector<Case>& cases) {
  Arena arena(ctx.device());
  std::vector<double> seconds;
  for (const Case& c : cases) {
    ctx.CheckInterrupt();
    const Waited not_asked = [] { return 0.0; };
    double s = Time(ctx, c, arena, 1, not_asked).seconds;  // also touches every page and does all work on first use
    if (Agree(ctx, {s})[0] < kSettled) s = Time(ctx, c, arena, 1, not_asked).seconds;
    seconds.push_back(s);
  }
  seconds = Agree(ctx, seconds);
  Samples rows;
  for (const double s : seconds) rows.push_back({s});
  return Pack(rows);
}

std::vector<int> RoundsWithin(const std::vector<double>& seconds, Seconds budget, int most) {
  const auto rounds = [&](double share) {
    std::vector<int> each;
    for (const double s : seconds) {
      const double fit = share / std::max(s, kSample.value());
      each.push_back(fit >= most ? most : std::max(1, static_cast<int>(fit)));
    }
    return each;
  };
  const auto total = [&](const std::vector<int>& each) {
    double sum = 0;
    for (size_t i = 0; i < each.size(); ++i) sum += each[i] * std::max(seconds[i], kSample.value());
    return sum;
  };
  double low = 0, high = budget.value();  // seconds for each case
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (total(rounds(middle)) <= budget.value() ? low : high) = middle;
  }
  return rounds(low);
}

int RoundsOfPart(int rounds, size_t i, int part, int parts) {
  const auto before = [&](int p) {
    return (static_cast<int64_t>(rounds) * p + static_cast<int64_t>(i) % parts) / parts;
  };
  return static_cast<int>(before(part + 1) - before(part));
}

std::string MeasureKernels(RankContext& ctx, const KernelPlan& plan) { return Pack(KernelPart(ctx, plan).Measure()); }

KernelExtras TakeExtras(Samples& samples) {
  const std::vector<double>& rows = samples[samples.size() - KernelRows::kMore + KernelRows::kDisturbance];
  KernelExtras extras{.disturbance = {}, .fixed = samples[samples.size() - KernelRows::kMore + KernelRows::kFixed]};
  Disturbance& d = extras.disturbance;
  for (size_t i = 0; i + 5 <= rows.size(); i += 5) {  // one rank each
    d.seen.wall += rows[i], d.seen.held += rows[i + 1], d.kept.wall += rows[i + 2], d.kept.held += rows[i + 3];
    d.repeated += static_cast<int64_t>(rows[i + 4]);
  }
  samples.resize(samples.size() - KernelRows::kMore);
  return extras;
}

}  // namespace twofold::calibrate
