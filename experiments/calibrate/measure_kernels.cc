#include "experiments/calibrate/measure_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "experiments/calibrate/samples.h"

namespace twofold::calibrate {
namespace {

// Seconds a call, over `calls` calls on operands of their own.
double Time(RankContext& ctx, const Case& c, Arena& arena, int calls) {
  std::vector<ops::Op> ops;
  ops.reserve(static_cast<size_t>(calls));
  for (int i = 0; i < calls; ++i) ops.push_back(c.make(arena));
  Device& device = ctx.device();
  ctx.world().Barrier().Wait();
  device.compute().Synchronize();
  const Seconds start = ctx.clock().Now();
  for (const ops::Op& op : ops) device.Launch(device.compute(), op);
  device.compute().Synchronize();
  return (ctx.clock().Now() - start).value() / calls;
}

// Element by element, the largest of all ranks' values: so that all do the same.
std::vector<double> Agree(RankContext& ctx, const std::vector<double>& values) {
  Tensor t = ctx.device().NewTensor(Shape{static_cast<int64_t>(values.size())}, DType::kF64, Category::kOther);
  ctx.device().Upload(t, [&](std::span<std::byte> bytes) { std::memcpy(bytes.data(), values.data(), bytes.size()); });
  ctx.world().AllReduce(t, ReduceOp::kMax).Wait();
  std::vector<double> agreed(values.size());
  ctx.device().Download(t, std::as_writable_bytes(std::span(agreed)));
  return agreed;
}

constexpr double kSettled = 2e-3;  // seconds: a call that lasts longer shows little of its first touches

int CallsFor(double seconds) { return std::clamp(static_cast<int>(kSample.value() / std::max(seconds, 1e-9)), 1, 100); }

}  // namespace

std::string TryKernels(RankContext& ctx, const std::vector<Case>& cases) {
  Arena arena(ctx.device());
  std::vector<double> seconds;
  for (const Case& c : cases) {
    ctx.CheckInterrupt();
    double s = Time(ctx, c, arena, 1);  // also touches every page and starts whatever starts on first use
    if (Agree(ctx, {s})[0] < kSettled) s = Time(ctx, c, arena, 1);
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
  const auto before = [&](int p) { return (static_cast<int64_t>(rounds) * p + static_cast<int64_t>(i) % parts) / parts; };
  return static_cast<int>(before(part + 1) - before(part));
}

std::string MeasureKernels(RankContext& ctx, const KernelPlan& plan) {
  Arena arena(ctx.device());
  Samples samples(plan.cases.size());
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < plan.cases.size(); ++i) {
      if (static_cast<int>(samples[i].size()) >= RoundsOfPart(plan.rounds[i], i, plan.part, plan.parts)) continue;
      ctx.CheckInterrupt();
      samples[i].push_back(Time(ctx, plan.cases[i], arena, CallsFor(plan.seconds[i])));
      more = true;
    }
  }
  return Pack(samples);
}

}  // namespace twofold::calibrate
