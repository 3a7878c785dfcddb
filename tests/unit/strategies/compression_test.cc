// Reducers that compress: what they send and what they keep add up, means are equal on all ranks, messages have the
// sizes that their headers state, and with nothing left out they are plain means.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "strategies/compression/coded_reducer.h"
#include "strategies/compression/one_bit.h"
#include "strategies/compression/one_bit_adam.h"
#include "strategies/compression/power_sgd.h"
#include "strategies/compression/quantize.h"
#include "strategies/compression/random_k.h"
#include "strategies/compression/top_k.h"
#include "strategies/data_parallel/gradient_home.h"
#include "strategies/data_parallel/mean_reducer.h"
#include "strategies/data_parallel/reduction_pipeline.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace compression_test {

using test::ExpectOnRanks;

constexpr int kRanks = 4;
constexpr int64_t kRows = 24, kColumns = 20, kBias = 12, kNumel = kRows * kColumns + kBias;

struct Method {
  std::string name;
  std::function<MakeReducer(const FeedbackOptions&)> make;
  bool exact = false;  // nothing is left out
  bool plain = false;  // nothing is rounded differently from a plain mean: equal to the bit
};

std::vector<Method> Methods() {
  const auto coded = [](const MakeCodec& codec) {
    return [codec](const FeedbackOptions& feedback) { return CodedReducers(codec, feedback); };
  };
  return {
      {"quantize 8", coded(QuantizeCodecs({}))},
      {"quantize 4 stochastic", coded(QuantizeCodecs({.bits = 4, .stochastic = true}))},
      {"quantize 32", coded(QuantizeCodecs({.bits = 32})), true, true},
      {"one bit", coded(OneBitCodecs())},
      {"top-k", coded(TopKCodecs({.density = 0.1}))},
      {"top-k, all", coded(TopKCodecs({.density = 1})), true, true},
      {"random-k", [](const FeedbackOptions& f) { return RandomKReducers({.density = 0.1, .feedback = f}); }},
      {"random-k, all", [](const FeedbackOptions& f) { return RandomKReducers({.density = 1, .feedback = f}); }, true,
       true},
      {"power sgd",
       [](const FeedbackOptions& f) { return PowerSgdReducers({.rank = 2, .start_step = 1, .feedback = f}); }},
      {"power sgd, full rank",
       [](const FeedbackOptions& f) {
         return PowerSgdReducers({.rank = 100, .start_step = 0, .min_compression = 0, .feedback = f});
       },
       true},
  };
}

// The groups of a layout: all ranks keep the mean, one shard each, or both; or one shard each, in two stages.
enum Layout { kDdp, kZero, kHybrid, kTwoStages };

struct Groups {
  Groups(RankContext& ctx, Layout layout) {
    using Pattern = ProcessGroup::Pattern;
    if (layout == kDdp) replicate = ctx.world().SplitEvenly(kRanks, Pattern::kConsecutive, "replicate");
    if (layout == kZero || layout == kTwoStages)
      scatter = ctx.world().SplitEvenly(kRanks, Pattern::kConsecutive, "scatter");
    if (layout == kTwoStages) {
      near = ctx.world().SplitEvenly(2, Pattern::kConsecutive, "near");
      far = ctx.world().SplitEvenly(2, Pattern::kStrided, "far");
    }
    if (layout != kHybrid) return;
    scatter = ctx.world().SplitEvenly(2, Pattern::kConsecutive, "scatter");
    replicate = ctx.world().SplitEvenly(2, Pattern::kStrided, "replicate");
  }
  std::unique_ptr<ProcessGroup> scatter, replicate, near, far;
};

// A pipeline with one bucket: a matrix and a bias.
struct Bench {
  Bench(RankContext& rank, const MakeReducer& make, Layout layout, DType dtype = DType::kF32)
      : groups(rank, layout),
        matrix("matrix", Shape{kRows, kColumns}, dtype, {}),
        bias("bias", Shape{kBias}, dtype, {}),
        nn{.device = rank.device(), .stream = rank.device().compute(), .seed = 3},
        pipeline(nn, make, rank.world()) {
    matrix.set_shard_layout(nn::ShardLayout::Whole(matrix.shape()));
    bias.set_shard_layout(nn::ShardLayout::Whole(bias.shape()));
    Bucket bucket{.numel = kNumel,
                  .dtype = dtype,
                  .groups = {groups.scatter.get(), groups.replicate.get(), groups.near.get(), groups.far.get()}};
    bucket.whole = {{&matrix, 0, 0, kRows * kColumns}, {&bias, 0, kRows * kColumns, kBias}};
    shards = groups.scatter == nullptr ? 1 : groups.scatter->size();
    first = groups.scatter == nullptr ? 0 : groups.scatter->rank() * (kNumel / shards);
    if (shards == 1) bucket.kept = bucket.whole;
    gradients = nn.device.NewTensor(Shape{kNumel}, dtype, Category::kGradients);
    kept = gradients.Slice(first, kNumel / shards);
    pipeline.Add(std::move(bucket), std::make_unique<DeviceHome>(nn, kept));
  }
  void Reduce(const std::function<double(int64_t)>& value, bool last = true) {
    for (int64_t i = 0; i < kNumel; ++i) gradients.data<float>()[i] = static_cast<float>(value(i));
    pipeline.Start(0, gradients, last);
    pipeline.Finish();
  }
  void Step(const std::function<double(int64_t)>& value, double loss_scale = 1) {
    pipeline.BeginStep(loss_scale);
    Reduce(value);
    ++nn.step;
  }
  std::vector<float> Kept() const { return {kept.data<float>(), kept.data<float>() + kept.numel()}; }

  Groups groups;
  nn::Parameter matrix, bias;
  nn::Context nn;
  ReductionPipeline pipeline;
  int shards;
  int64_t first;
  Tensor gradients, kept;
};

double ValueOn(int rank, int64_t i, int64_t step) {
  return std::sin(static_cast<double>(7 * i + 3 * rank + 31 * step)) * (1 + static_cast<double>(i % 5)) + 0.1 * rank;
}
double MeanOf(int64_t i, int64_t step) {
  double sum = 0;
  for (int r = 0; r < kRanks; ++r) sum += static_cast<double>(static_cast<float>(ValueOn(r, i, step)));
  return sum / kRanks;
}

// What the residuals of all ranks add to the mean of element i of the bucket.
double ErrorAt(RankContext& ctx, const Bench& b, int64_t i) {
  Tensor error = b.nn.device.NewTensor(Shape{1}, DType::kF64, Category::kOther);
  error.data<double>()[0] = 0;
  for (const ReducerState& s : b.pipeline.StateOf(0)) {
    if (!s.name.ends_with("residual") || i < s.first || i >= s.first + s.tensor.numel()) continue;
    error.data<double>()[0] += s.weight * static_cast<double>(s.tensor.data<float>()[i - s.first]);
  }
  ctx.world().AllReduce(error, ReduceOp::kSum).Wait();
  return error.data<double>()[0];
}

// The sum of the means of all steps, and what is left in the residuals, is the sum of all gradients' means. A loss
// scale that changes changes nothing.
TEST(Compression, WhatIsSentAndWhatIsKeptAddUp) {
  for (const Method& method : Methods()) {
    for (const Layout layout : {kDdp, kZero, kHybrid}) {
      SCOPED_TRACE(StrCat(method.name, ", layout ", static_cast<int>(layout)));
      ExpectOnRanks(kRanks, [&](RankContext& ctx) -> std::string {
        Bench b(ctx, method.make({}), layout);
        std::vector<double> sent(static_cast<size_t>(b.kept.numel()));
        for (int64_t step = 0; step < 6; ++step) {
          const double scale = step < 3 ? 1 : 8;
          b.Step([&](int64_t i) { return scale * ValueOn(ctx.rank(), i, step); }, scale);
          for (size_t i = 0; i < sent.size(); ++i) sent[i] += static_cast<double>(b.Kept()[i]) / scale;
        }
        for (int64_t i = 0; i < kNumel; ++i) {
          double want = 0;
          for (int64_t step = 0; step < 6; ++step) want += MeanOf(i, step);
          const double error = ErrorAt(ctx, b, i);
          if (method.exact && std::abs(error) > 1e-5) return StrCat("element ", i, " is left out: ", error);
          if (i < b.first || i >= b.first + b.kept.numel()) continue;
          const double got = sent[static_cast<size_t>(i - b.first)] + error;
          if (std::abs(got - want) > 2e-4) return StrCat("element ", i, ": ", got, ", not ", want);
        }
        return "";
      });
    }
  }
}

// Ranks that keep the same elements have the same values, and what leaves nothing out gives the plain mean.
TEST(Compression, MeansAreEqualOnAllRanks) {
  for (const Method& method : Methods()) {
    for (const Layout layout : {kDdp, kZero, kHybrid}) {
      SCOPED_TRACE(StrCat(method.name, ", layout ", static_cast<int>(layout)));
      ExpectOnRanks(kRanks, [&](RankContext& ctx) -> std::string {
        Bench b(ctx, method.make({}), layout), plain(ctx, MeanReducers(DType::kF32), layout);
        for (int64_t step = 0; step < 3; ++step) {
          const auto value = [&](int64_t i) { return ValueOn(ctx.rank(), i, step); };
          b.Step(value);
          plain.Step(value);
          if (method.plain && b.Kept() != plain.Kept()) return "not the plain mean, to the bit";
          for (size_t i = 0; method.exact && i < b.Kept().size(); ++i) {
            if (std::abs(b.Kept()[i] - plain.Kept()[i]) > 1e-4f) return StrCat("not the plain mean: element ", i);
          }
          if (layout == kZero) continue;
          Tensor largest = ctx.device().NewTensor(b.kept.shape(), DType::kF32, Category::kOther);
          std::copy_n(b.kept.data<float>(), b.kept.numel(), largest.data<float>());
          b.groups.replicate->AllReduce(largest, ReduceOp::kMax).Wait();
          for (int64_t i = 0; i < largest.numel(); ++i) {
            if (largest.data<float>()[i] != b.kept.data<float>()[i]) return StrCat("element ", i, " differs");
          }
        }
        return "";
      });
    }
  }
}

// A step whose gradients are not finite on one rank is not finite on any, and once it has been skipped, everything goes
// on as if it had not been. It may have several reductions.
TEST(Compression, ASkippedStepLeavesNoTrace) {
  for (const Method& method : Methods()) {
    for (const Layout layout : {kDdp, kZero, kHybrid}) {
      SCOPED_TRACE(StrCat(method.name, ", layout ", static_cast<int>(layout)));
      ExpectOnRanks(kRanks, [&](RankContext& ctx) -> std::string {
        std::vector<float> kept[2];
        for (const bool skips : {false, true}) {
          Bench b(ctx, method.make({.may_skip = true}), layout);
          for (int64_t step = 0; step < 4; ++step) {
            const auto value = [&](int64_t i) { return ValueOn(ctx.rank(), i, step); };
            b.nn.step = step;
            if (skips && step == 2) {
              b.pipeline.BeginStep();
              b.Reduce(value, /*last=*/false);
              b.Reduce([&](int64_t i) { return i == 5 && ctx.rank() == 1 ? NAN : value(i); });
              Tensor bad = ctx.device().NewTensor(Shape{1}, DType::kF32, Category::kOther);
              const std::vector<float> now = b.Kept();
              bad.data<float>()[0] = std::any_of(now.begin(), now.end(), [](float x) { return std::isnan(x); }) ? 1 : 0;
              ctx.world().AllReduce(bad, ReduceOp::kSum).Wait();
              if (bad.data<float>()[0] == 0) return "no rank sees that a gradient is not finite";
              b.pipeline.Skip();
            }
            b.Step(value);
          }
          kept[skips] = b.Kept();
        }
        return kept[0] == kept[1] ? "" : "the skipped step left a trace";
      });
    }
  }
}

// Ranks 0, 1 and 2, 3 share a copy of the model. Their biases are copies with equal gradients, beside matrices that
// differ, which decide what is chosen and how it is rounded.
TEST(Compression, CopiesOnRanksOfOneModelStayCopies) {
  for (const Method& method : Methods()) {
    SCOPED_TRACE(method.name);
    ExpectOnRanks(kRanks, [&](RankContext& ctx) -> std::string {
      using Pattern = ProcessGroup::Pattern;
      const nn::GroupTag tag{1};
      const auto tensor = ctx.world().SplitEvenly(2, Pattern::kConsecutive, "tensor"),
                 same = ctx.world().SplitEvenly(2, Pattern::kStrided, "replicas");
      nn::Context nn{.device = ctx.device(), .stream = ctx.device().compute(), .seed = 3};
      nn::Parameter matrix("matrix", Shape{kRows, kColumns}, DType::kF32, {}),
          bias("bias", Shape{kBias}, DType::kF32, {});
      matrix.set_shard_layout(nn::ShardLayout::Along(Shape{2 * kRows, kColumns}, 0, tensor->rank() * kRows, kRows));
      bias.set_shard_layout(nn::ShardLayout::Whole(bias.shape(), tensor->rank() == 0, tag, /*partial=*/false));
      ReductionPipeline pipeline(nn, method.make({}), {ctx.world(), {{tag, tensor.get()}}});
      Bucket bucket{.numel = kNumel, .groups = {.replicate = same.get()}};
      bucket.whole = {{&matrix, 0, 0, kRows * kColumns}, {&bias, 0, kRows * kColumns, kBias}};
      bucket.kept = bucket.whole;
      Tensor gradients = nn.device.NewTensor(Shape{kNumel}, DType::kF32, Category::kGradients);
      pipeline.Add(std::move(bucket), std::make_unique<DeviceHome>(nn, gradients));
      for (; nn.step < 3; ++nn.step) {
        pipeline.BeginStep();
        for (int64_t i = 0; i < kNumel; ++i) {
          const int from = i < kRows * kColumns ? ctx.rank() : same->rank();
          gradients.data<float>()[i] = static_cast<float>(ValueOn(from, i, nn.step));
        }
        pipeline.Start(0, gradients, true);
        pipeline.Finish();
        Tensor largest = ctx.device().NewTensor(Shape{kBias}, DType::kF32, Category::kOther);
        const float* mine = gradients.data<float>() + kRows * kColumns;
        std::copy_n(mine, kBias, largest.data<float>());
        tensor->AllReduce(largest, ReduceOp::kMax).Wait();
        if (!std::equal(mine, mine + kBias, largest.data<float>())) return "the copies differ";
      }
      return "";
    });
  }
}

// Bytes of a message for n elements.
int64_t Coded(const std::string& name, int64_t n) {
  if (name == "quantize 8") return n + 4 * ((n + 255) / 256);
  if (name == "quantize 4 stochastic") return (n + 1) / 2 + 4 * ((n + 255) / 256);
  if (name == "one bit") return (n + 7) / 8 + 4 * ((n + 1023) / 1024);
  return 8 * std::llround(0.1 * static_cast<double>(n));  // top-k: values and indices
}

// With N ranks: all-to-all counts N c(n / N) bytes, an all-gather N times what a rank sends, an all-reduce its tensor.
TEST(Compression, MessagesHaveTheStatedSizes) {
  constexpr int64_t kPart = kNumel / kRanks;
  for (const Method& method : Methods()) {
    for (const Layout layout : {kDdp, kZero}) {
      std::map<std::string, int64_t> want;
      const bool all = layout == kDdp;
      if (method.name == "random-k") {
        want[all ? "all_reduce" : "reduce_scatter"] =
            4 * (all ? std::llround(0.1 * kNumel) : kRanks * std::llround(0.1 * kPart));
      } else if (method.name == "power sgd") {
        want["all_reduce"] = 4 * (2 * kRows + kBias + 2 * kColumns);
      } else if (method.name == "top-k" && all) {
        want["all_gather"] = kRanks * Coded(method.name, kNumel);
      } else if (!method.exact) {
        want["all_to_all"] = kRanks * Coded(method.name, kPart);
        if (all) want["all_gather"] = kRanks * Coded(method.name, kPart);
      }
      if (want.empty()) continue;
      SCOPED_TRACE(StrCat(method.name, ", layout ", static_cast<int>(layout)));
      ExpectOnRanks(kRanks, [&](RankContext& ctx) -> std::string {
        Bench b(ctx, method.make({}), layout);
        b.nn.step = 1;
        b.Step([&](int64_t i) { return ValueOn(ctx.rank(), i, 0); });
        for (const auto& [operation, bytes] : want) {
          int64_t sent = 0;
          for (const auto& [key, entry] : ctx.communication().entries()) {
            const auto& [group, kind] = key;
            if (KindName(kind) == operation && group == (all ? "replicate" : "scatter")) sent += entry.bytes.value();
          }
          if (sent != bytes) return StrCat(operation, " of ", sent, " bytes, not ", bytes);
        }
        return "";
      });
    }
  }
}

// Two near ranks average first, and then ranks at their places of the two pairs. Each shard's mean arrives at the rank
// that keeps it. Only codes of means of pairs go between the pairs.
TEST(Compression, InTwoStagesEveryRankGetsTheMeanOfItsShard) {
  for (const int bits : {32, 8, 4}) {
    SCOPED_TRACE(bits);
    ExpectOnRanks(kRanks, [&](RankContext& ctx) -> std::string {
      Bench b(ctx, CodedReducers(QuantizeCodecs({.bits = bits}), {.enabled = false}), kTwoStages);
      const double most = 6;                                                             // of any |value|
      const double rounding = bits == 32 ? 1e-6 : 2 * most / (bits == 8 ? 127 : 7) / 2;  // half a level, twice
      for (int64_t step = 0; step < 3; ++step) {
        b.Step([&](int64_t i) { return ValueOn(ctx.rank(), i, step); });
        for (int64_t i = 0; i < b.kept.numel(); ++i) {
          const double got = b.Kept()[static_cast<size_t>(i)], want = MeanOf(b.first + i, step);
          if (std::abs(got - want) > rounding) return StrCat("element ", b.first + i, ": ", got, ", not ", want);
        }
      }
      if (bits != 4) return "";
      std::map<std::string, int64_t> sent;
      for (const auto& [key, entry] : ctx.communication().entries()) sent[key.first] += entry.bytes.value();
      const int64_t shard = Coded("quantize 4 stochastic", kNumel / kRanks);
      if (sent["near"] != 3 * 4 * shard) return StrCat("near ranks exchange ", sent["near"], " bytes");
      if (sent["far"] != 3 * 2 * shard) return StrCat("far ranks exchange ", sent["far"], " bytes");
      return sent["scatter"] == 0 ? "" : "something else is sent";
    });
  }
}

// A Bench whose bucket's parameters an optimizer updates.
struct AdamBench : Bench {
  AdamBench(RankContext& rank, const MakeReducer& make, const optim::AdamOptions& options)
      : Bench(rank, make, kDdp), optimizer(optim::MakeAdam(options)) {
    std::vector<optim::Slice> slices;
    for (nn::Parameter* p : {&matrix, &bias}) {
      const int64_t offset = p == &matrix ? 0 : kRows * kColumns;
      Tensor data = nn.device.NewTensor(Shape{p->numel()}, DType::kF32, Category::kParameters);
      nn.Launch(ops::Fill{.out = data, .value = 0});
      slices.push_back({p->name(), data, gradients.Slice(offset, p->numel()), {{.parameter = p, .count = p->numel()}}});
    }
    optimizer->Attach(nn, slices);
    pipeline.Attached(
        [this](const nn::Parameter& p, std::string_view name) { return State(&p == &matrix ? 0 : 1, name); });
  }
  Tensor State(size_t slice, std::string_view name) const {
    for (const optim::State& state : optimizer->StateOf(slice))
      if (state.name == name) return state.tensor.Flat();
    return Tensor();
  }
  double At(std::string_view name, int64_t i) const {
    const int64_t bias_at = kRows * kColumns;
    const Tensor state = State(i < bias_at ? 0 : 1, name);
    return static_cast<double>(state.data<float>()[i < bias_at ? i : i - bias_at]);
  }
  void Update(const std::function<double(int64_t)>& value, double scale) {
    Step([&](int64_t i) { return scale * value(i); }, scale);
    Tensor factor = nn.device.NewTensor(Shape{1}, DType::kF32, Category::kOther);
    nn.Launch(ops::Fill{.out = factor, .value = 1 / scale});
    optimizer->Step(nn, 0.01, factor);
  }
  std::unique_ptr<optim::Optimizer> optimizer;
};

// Tang et al. 2021, algorithm 1. The momentum that all share, and what the signs have left out so far, is the mean of
// the momenta that each rank computed from its own gradient, and what the signs had left out before. From freeze_step
// on the second moment stays. A loss scale changes nothing.
TEST(OneBitAdam, SharesMomentaAndFreezesTheSecondMoment) {
  constexpr int64_t kFreeze = 3, kSteps = 8;
  constexpr double kBeta1 = 0.9, kBeta2 = 0.99;
  for (const double scale : {1.0, 64.0}) {
    ExpectOnRanks(kRanks, [&](RankContext& ctx) -> std::string {
      const MakeReducer make = OneBitAdamReducers({.beta1 = kBeta1, .freeze_step = kFreeze});
      AdamBench b(ctx, make, {.lr = 0.01, .beta1 = kBeta1, .beta2 = kBeta2, .freeze_step = kFreeze});
      std::vector<double> momentum(kNumel), variance(kNumel), error(kNumel);
      for (int64_t step = 0; step < kSteps; ++step) {
        b.Update([&](int64_t i) { return ValueOn(ctx.rank(), i, step); }, scale);
        double left_out = 0;
        for (int64_t i = 0; i < kNumel; ++i) {
          const auto k = static_cast<size_t>(i);
          const double mean = MeanOf(i, step), now = ErrorAt(ctx, b, i);
          const double want = kBeta1 * momentum[k] + (1 - kBeta1) * mean + error[k] - now;
          momentum[k] = b.At("exp_avg", i);
          if (std::abs(momentum[k] - want) > 2e-5)
            return StrCat("step ", step, ", momentum ", i, ": ", momentum[k], ", not ", want);
          if (step < kFreeze) variance[k] = kBeta2 * variance[k] + (1 - kBeta2) * mean * mean;
          if (std::abs(b.At("exp_avg_sq", i) - variance[k]) > 2e-5) return StrCat("step ", step, ", variance ", i);
          error[k] = now, left_out += std::abs(now);
        }
        if ((left_out > 0.1) != (step >= kFreeze)) return StrCat("step ", step, " leaves out ", left_out);
      }
      return "";
    });
  }
}

// Gradients before freezing; then signs, a scale per block of 1024, in both directions.
TEST(OneBitAdam, SendsGradientsThenSigns) {
  ExpectOnRanks(kRanks, [](RankContext& ctx) -> std::string {
    AdamBench b(ctx, OneBitAdamReducers({.freeze_step = 1}), {.freeze_step = 1});
    std::map<std::string, int64_t> sent;
    for (int64_t step = 0; step < 3; ++step) b.Update([&](int64_t i) { return ValueOn(ctx.rank(), i, step); }, 1);
    for (const auto& [key, entry] : ctx.communication().entries())
      sent[std::string(KindName(key.second))] += entry.bytes.value();
    const int64_t coded = kRanks * Coded("one bit", kNumel / kRanks);
    if (sent["all_reduce"] != 4 * kNumel) return StrCat("all_reduce of ", sent["all_reduce"], " bytes");
    if (sent["all_to_all"] != 2 * coded) return StrCat("all_to_all of ", sent["all_to_all"], " bytes");
    if (sent["all_gather"] != 2 * coded) return StrCat("all_gather of ", sent["all_gather"], " bytes");
    return "";
  });
}

// A convolution [kernel, kernel, in, out] is a matrix of its output channels by all else, and is compressed.
TEST(Compression, PowerSgdSendsFactorsOfConvolutions) {
  ExpectOnRanks(kRanks, [](RankContext& ctx) -> std::string {
    nn::Context nn{.device = ctx.device(), .stream = ctx.device().compute(), .seed = 3, .step = 1};
    const nn::Parameter weight("weight", Shape{3, 3, 8, 16}, DType::kF32, {});
    const auto group = ctx.world().SplitEvenly(kRanks, ProcessGroup::Pattern::kConsecutive, "convolution");
    Bucket bucket{.numel = weight.numel(), .groups = {.replicate = group.get()}};
    bucket.whole = bucket.kept = {{&weight, 0, 0, weight.numel()}};
    const auto reducer = PowerSgdReducers({.rank = 2, .start_step = 0})(nn, bucket);
    Tensor gradients = nn.device.NewTensor(Shape{weight.numel()}, DType::kF32, Category::kGradients);
    nn.Launch(ops::Fill{.out = gradients, .value = 1});
    reducer->BeginStep(nn, 1);
    std::optional<Work> work = reducer->Start(nn, gradients, gradients, true);
    while (work) work->WaitOn(nn.stream), work = reducer->Next(nn);
    int64_t bytes = 0;
    for (const auto& [key, entry] : ctx.communication().entries()) {
      if (key.first == "convolution") bytes += entry.bytes.value();
    }
    return bytes == 4 * 2 * (72 + 16) ? "" : StrCat(bytes, " bytes");
  });
}

}  // namespace compression_test
}  // namespace twofold
