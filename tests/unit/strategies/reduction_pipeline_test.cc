// The way of gradients from the backward pass to the optimizer: plain means, other types on the wire, reducers with
// several messages and with state, and sums over ranks that hold the same elements.
#include "strategies/data_parallel/reduction_pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "strategies/data_parallel/mean_reducer.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace reduction_pipeline_test {

using test::ExpectOnRanks;

float ValueOn(int rank, int64_t i) {
  return static_cast<float>(std::sin(static_cast<double>(7 * i + 3 * rank)) + rank);
}

template <class T>
void Set(const Tensor& t, int rank, int64_t shift = 0) {
  for (int64_t i = 0; i < t.numel(); ++i) t.data<T>()[i] = T(ValueOn(rank, i + shift));
}

// One rank's pipeline over buckets of the given sizes. Gradients accumulate where `grads` are, their means in `kept`.
struct Bench {
  Bench(RankContext& rank, MakeReducer make, const std::vector<int64_t>& sizes, const ReductionGroups& groups,
        DType dtype = DType::kF32)
      : nn{.device = rank.device(), .stream = rank.device().compute()}, pipeline(nn, std::move(make), rank.world()) {
    const int64_t shards = groups.scatter != nullptr ? groups.scatter->size() : 1;
    for (const int64_t n : sizes) {
      grads.push_back(nn.device.NewTensor(Shape{n}, dtype, Category::kGradients));
      kept.push_back(shards == 1 ? grads.back() : nn.device.NewTensor(Shape{n / shards}, dtype, Category::kGradients));
      pipeline.Add({.numel = n, .dtype = dtype, .groups = groups}, std::make_unique<DeviceHome>(nn, kept.back()));
    }
  }
  nn::Context nn;
  std::vector<Tensor> grads, kept;
  ReductionPipeline pipeline;
};

// Every rank's element in the wire type, their mean in f32, rounded to the wire type once.
template <class Wire>
float Expected(int ranks, int64_t i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += static_cast<float>(Wire(ValueOn(r, i)));
  return static_cast<float>(Wire(sum / static_cast<float>(ranks)));
}

template <class Wire>
void ExpectRoundsOnTheWay() {
  ExpectOnRanks(3, [](RankContext& ctx) -> std::string {
    Bench b(ctx, MeanReducers(DTypeOf<Wire>::value), {33, 5}, {.replicate = &ctx.world()});
    if (!b.pipeline.Rounds(0)) return "it does not say that it rounds";
    const auto communication = [&] {
      return ctx.memory().live_by_category[static_cast<size_t>(Category::kCommunication)].value();
    };
    const int64_t before = communication();
    for (int step = 0; step < 2; ++step) {
      b.pipeline.BeginStep();
      for (size_t i = 0; i < 2; ++i) {
        Set<float>(b.grads[i], ctx.rank(), step);
        b.pipeline.Start(i, b.grads[i], true);
      }
      if (communication() < before + 38 * static_cast<int64_t>(sizeof(Wire)))
        return "copies are not accounted as communication";
      b.pipeline.Finish();
      for (const Tensor& t : b.kept) {
        for (int64_t i = 0; i < t.numel(); ++i) {
          const float got = t.data<float>()[i], want = Expected<Wire>(ctx.world_size(), i + step);
          if (got != want) return StrCat("element ", i, " is ", got, ", not ", want);
        }
      }
      if (communication() != before) return "copies are left";
    }
    return "";
  });
}

TEST(MeanReducer, RoundsOnTheWayAndSumsWide) {
  ExpectRoundsOnTheWay<BF16>();
  ExpectRoundsOnTheWay<F16>();
}

TEST(MeanReducer, AWiderWireRoundsOnceAtTheEnd) {
  ExpectOnRanks(3, [](RankContext& ctx) -> std::string {
    Bench b(ctx, MeanReducers(DType::kF32), {9}, {.replicate = &ctx.world()}, DType::kBF16);
    if (b.pipeline.Rounds(0)) return "it says that it rounds";
    Set<BF16>(b.grads[0], ctx.rank());
    b.pipeline.Start(0, b.grads[0], true);
    b.pipeline.Finish();
    for (int64_t i = 0; i < 9; ++i) {
      float sum = 0;
      for (int r = 0; r < 3; ++r) sum += static_cast<float>(BF16(ValueOn(r, i)));
      if (b.kept[0].data<BF16>()[i].bits != BF16(sum / 3).bits) return StrCat("element ", i);
    }
    return "";
  });
}

// Two shard groups of two ranks. Two micro-batches are added up, and each rank keeps its shard of the mean over all
// four.
TEST(ReductionPipeline, ScattersReplicatesAndAddsUp) {
  ExpectOnRanks(4, [](RankContext& ctx) -> std::string {
    using Pattern = ProcessGroup::Pattern;
    const auto scatter = ctx.world().SplitEvenly(2, Pattern::kConsecutive, "scatter"),
               replicate = ctx.world().SplitEvenly(2, Pattern::kStrided, "replicate");
    Bench b(ctx, MeanReducers(DType::kF32), {6, 8}, {scatter.get(), replicate.get()});
    b.pipeline.BeginStep();
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      for (size_t k = 0; k < 2; ++k) {
        b.pipeline.Advance();
        Set<float>(b.grads[k], ctx.rank(), micro_batch);
        b.pipeline.Start(k, b.grads[k], micro_batch == 1);
      }
      b.pipeline.Finish();
    }
    for (const Tensor& t : b.kept) {
      for (int64_t i = 0; i < t.numel(); ++i) {
        double want = 0;
        const int64_t at = scatter->rank() * t.numel() + i;
        for (int r = 0; r < 4; ++r) want += (ValueOn(r, at) + ValueOn(r, at + 1)) / 4;
        if (std::abs(t.data<float>()[i] - want) > 1e-5) return StrCat("element ", i, " of ", t.numel());
      }
    }
    return "";
  });
}

// Sends half of what it has (the residual included) in two messages, the second of which carries the result of the
// first, and keeps the other half for the next step.
class HalfReducer final : public Reducer {
 public:
  HalfReducer(nn::Context& ctx, const Bucket& bucket, std::vector<std::string>& events)
      : group_(*bucket.groups.replicate), name_(std::to_string(bucket.index)), events_(events) {
    for (Tensor* t : {&residual_, &before_}) {
      *t = ctx.device.NewTensor(Shape{bucket.numel}, bucket.dtype, Category::kCommunication);
      ctx.Launch(ops::Fill{.out = *t, .value = 0});
    }
  }
  void BeginStep(nn::Context& ctx, double) override { ctx.Launch(ops::Cast{.in = residual_, .out = before_}); }
  Work Start(nn::Context& ctx, Tensor in, Tensor, bool) override {
    events_.push_back("start " + name_);
    ctx.Launch(ops::AddTo{.in = residual_, .out = in});
    ctx.Launch(ops::Scale{.x = in, .factor = 0.5});
    ctx.Launch(ops::Cast{.in = in, .out = residual_});
    sent_ = std::move(in);
    return group_.AllReduce(sent_, ReduceOp::kAvg);
  }
  std::optional<Work> Next(nn::Context&) override {
    if (!std::exchange(first_, !first_)) return std::nullopt;
    events_.push_back("next " + name_);
    return group_.AllReduce(sent_, ReduceOp::kMax);  // equal on all ranks already
  }
  Tensor Mean(nn::Context&) override {
    events_.push_back("mean " + name_);
    return std::exchange(sent_, Tensor());
  }
  void Skip(nn::Context& ctx) override { ctx.Launch(ops::Cast{.in = before_, .out = residual_}); }
  std::vector<ReducerState> State() const override { return {{.name = "residual", .tensor = residual_}}; }

 private:
  ProcessGroup& group_;
  const std::string name_;
  std::vector<std::string>& events_;
  Tensor residual_, before_, sent_;
  bool first_ = true;
};

TEST(ReductionPipeline, MovesDependentMessagesBucketByBucket) {
  ExpectOnRanks(2, [](RankContext& ctx) -> std::string {
    std::vector<std::string> events;
    const auto make = [&](nn::Context& nn, const Bucket& b) { return std::make_unique<HalfReducer>(nn, b, events); };
    Bench b(ctx, make, {4, 4, 4}, {.replicate = &ctx.world()});
    b.pipeline.BeginStep();
    for (size_t k = 0; k < 3; ++k) {
      b.pipeline.Advance();
      Set<float>(b.grads[k], ctx.rank());
      b.pipeline.Start(k, b.grads[k], true);
    }
    b.pipeline.Finish();
    const std::vector<std::string> want = {"start 0", "next 0", "start 1", "mean 0", "next 1",
                                           "start 2", "mean 1", "next 2",  "mean 2"};
    if (events != want) return absl::StrJoin(events, ", ");
    return "";
  });
}

// What was sent and what is kept back add up to all gradients. A skipped step leaves the state as it was.
TEST(ReductionPipeline, KeepsStateFromStepToStep) {
  ExpectOnRanks(2, [](RankContext& ctx) -> std::string {
    std::vector<std::string> events;
    const auto make = [&](nn::Context& nn, const Bucket& b) { return std::make_unique<HalfReducer>(nn, b, events); };
    Bench b(ctx, make, {5}, {.replicate = &ctx.world()});
    const auto residual = [&](int64_t i) { return b.pipeline.StateOf(0).at(0).tensor.data<float>()[i]; };
    std::vector<double> sent(5), all(5);
    for (int step = 0; step < 4; ++step) {
      b.pipeline.BeginStep();
      Set<float>(b.grads[0], ctx.rank(), step);
      const float kept = residual(2);
      b.pipeline.Start(0, b.grads[0], true);
      b.pipeline.Finish();
      if (step == 2) {
        if (residual(2) == kept) return "this step changed no state";
        b.pipeline.Skip();
        if (residual(2) != kept) return "a skipped step changed the state";
        continue;
      }
      for (int64_t i = 0; i < 5; ++i) {
        sent[static_cast<size_t>(i)] += b.kept[0].data<float>()[i];
        for (int r = 0; r < 2; ++r) all[static_cast<size_t>(i)] += ValueOn(r, i + step) / 2;
      }
    }
    Tensor left = b.pipeline.StateOf(0).at(0).tensor;
    ctx.world().AllReduce(left, ReduceOp::kAvg).Wait();
    for (int64_t i = 0; i < 5; ++i) {
      const auto k = static_cast<size_t>(i);
      if (std::abs(sent[k] + left.data<float>()[i] - all[k]) > 1e-5) return StrCat("element ", i);
    }
    return "";
  });
}

// Ranks 0, 1 and 2, 3 share a copy of the model. Of a parameter of 4 rows, rows 1 and 2 have partial gradients; of
// another one, all. Sums follow the mean, once a step, whether or not there is a mean.
TEST(ReductionPipeline, SumsPartialGradientsInTheLastMicroBatch) {
  using nn::ShardLayout;
  for (const auto& [replicas, tag] : {std::pair(false, kTensorTag), {true, kTensorTag}, {true, kEmbeddingTag}}) {
    ExpectOnRanks(4, [replicas = replicas, tag = tag](RankContext& ctx) -> std::string {
      using Pattern = ProcessGroup::Pattern;
      const auto tensor = ctx.world().SplitEvenly(2, Pattern::kConsecutive, "tensor"),
                 same = ctx.world().SplitEvenly(2, Pattern::kStrided, "replicas");
      nn::Parameter a("a", Shape{4, 3}, DType::kF32, {}), b("b", Shape{2}, DType::kF32, {});
      a.set_shard_layout(ShardLayout::Rows(Shape{8, 3}, {{.first = 0, .count = 1},
                                                         {.first = 2, .count = 2, .holders = tag, .partial = true},
                                                         {.first = 6, .count = 1}}));
      b.set_shard_layout(ShardLayout::Whole(Shape{2}, true, tag, true));
      nn::Context nn{.device = ctx.device(), .stream = ctx.device().compute()};
      ReductionPipeline pipeline(nn, MeanReducers(DType::kF32), {ctx.world(), {{tag, tensor.get()}}});
      Tensor grads = nn.device.NewTensor(Shape{14}, DType::kF32, Category::kGradients);
      Bucket bucket{.numel = 14, .whole = {{&a, 0, 0, 12}, {&b, 0, 12, 2}}};
      bucket.kept = bucket.whole;
      if (replicas) bucket.groups.replicate = same.get();
      pipeline.Add(bucket, std::make_unique<DeviceHome>(nn, grads));
      pipeline.BeginStep();
      Set<float>(grads, ctx.rank());
      pipeline.Start(0, grads, /*last=*/false);
      pipeline.Finish();
      const int beside = ctx.rank() ^ 1;
      const auto mean = [&](int rank, int64_t i) {
        return replicas ? (ValueOn(rank, i) + ValueOn((rank + 2) % 4, i)) / 2 : ValueOn(rank, i);
      };
      for (int64_t i = 0; i < 14; ++i) {
        if (std::abs(grads.data<float>()[i] - mean(ctx.rank(), i)) > 1e-6)
          return StrCat("element ", i, " is summed too soon");
      }
      Set<float>(grads, ctx.rank());
      pipeline.BeginStep();
      pipeline.Start(0, grads, /*last=*/true);
      pipeline.Finish();
      for (int64_t i = 0; i < 14; ++i) {
        const bool partial = (i >= 3 && i < 9) || i >= 12;
        const float want = mean(ctx.rank(), i) + (partial ? mean(beside, i) : 0);
        if (std::abs(grads.data<float>()[i] - want) > 1e-6) return StrCat("element ", i);
      }
      return "";
    });
  }
}

}  // namespace reduction_pipeline_test
}  // namespace twofold
