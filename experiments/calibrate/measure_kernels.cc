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

int CallsFor(double seconds) { return std::clamp(static_cast<int>(kSample.value() / std::max(seconds, 1e-9)), 1, 100); }

}  // namespace

std::string MeasureKernels(RankContext& ctx, const KernelPlan& plan) {
  Arena arena(ctx.device());
  std::vector<double> first;  // also touches every page and starts whatever starts on first use
  for (const Case& c : plan.cases) {
    ctx.CheckInterrupt();
    Time(ctx, c, arena, 1);
    first.push_back(Time(ctx, c, arena, 1));
  }
  first = Agree(ctx, first);
  Samples samples(plan.cases.size());
  const Seconds start = ctx.clock().Now();
  for (int round = 1; round <= plan.most_rounds; ++round) {
    for (size_t i = 0; i < plan.cases.size(); ++i) {
      ctx.CheckInterrupt();
      samples[i].push_back(Time(ctx, plan.cases[i], arena, CallsFor(first[i])));
    }
    const double spent = Agree(ctx, {(ctx.clock().Now() - start).value()})[0];
    const int fit = static_cast<int>(plan.budget.value() / (spent / round));
    const int rounds = std::clamp(fit, std::max(plan.least_rounds, round), plan.most_rounds);
    if (ctx.rank() == 0 && plan.progress) plan.progress(round, rounds, Seconds(spent / round * (rounds - round)));
    if (round == rounds) break;
  }
  return Pack(samples);
}

}  // namespace twofold::calibrate
