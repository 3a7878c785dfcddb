#include "strategies/data_parallel/ddp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/strings.h"
#include "core/nn/batch_norm.h"
#include "core/nn/loss.h"
#include "core/nn/mlp_model.h"
#include "core/nn/sequential.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace ddp_test {

using test::ExpectOnRanks;
using test::OnRanks;

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<Bytes> Sizes(std::initializer_list<int64_t> bytes) {
  std::vector<Bytes> sizes;
  for (int64_t b : bytes) sizes.push_back(Bytes(b));
  return sizes;
}

std::vector<std::vector<size_t>> Assign(std::initializer_list<int64_t> sizes, Bytes first_bucket, Bytes bucket) {
  return AssignBuckets(Sizes(sizes), std::vector<nn::GroupTag>(sizes.size()), first_bucket, bucket);
}

TEST(AssignBuckets, GoesFromTheLastParameterToTheFirst) {
  EXPECT_THAT(Assign({10, 20, 30, 40}, Bytes(1000), Bytes(1000)), ElementsAre(ElementsAre(3, 2, 1, 0)));
}

TEST(AssignBuckets, ClosesABucketOnceItHoldsItsShare) {
  EXPECT_THAT(Assign({10, 10, 10, 10, 10}, Bytes(20), Bytes(20)),
              ElementsAre(ElementsAre(4, 3), ElementsAre(2, 1), ElementsAre(0)));
}

TEST(AssignBuckets, HasASmallerFirstBucket) {
  EXPECT_THAT(Assign({10, 10, 10, 10}, Bytes(10), Bytes(30)), ElementsAre(ElementsAre(3), ElementsAre(2, 1, 0)));
}

TEST(AssignBuckets, NeverMakesTheFirstBucketLargerThanTheOthers) {
  EXPECT_THAT(Assign({10, 10}, Bytes(100), Bytes(5)), ElementsAre(ElementsAre(1), ElementsAre(0)));
}

TEST(AssignBuckets, GivesAParameterLargerThanABucketItsOwn) {
  EXPECT_THAT(Assign({10, 500, 10}, Bytes(10), Bytes(50)), ElementsAre(ElementsAre(2), ElementsAre(1), ElementsAre(0)));
}

// Each kind has a small first bucket. Backward reaches the end of {1} before that of {2, 0}.
TEST(AssignBuckets, PartsParametersThatOtherRanksHold) {
  const nn::GroupTag all, some{7};
  const std::vector<nn::GroupTag> replicas = {all, some, all, some, all};
  const std::vector<Bytes> sizes(5, Bytes(10));
  EXPECT_THAT(AssignBuckets(sizes, replicas, Bytes(10), Bytes(100)),
              ElementsAre(ElementsAre(4), ElementsAre(3), ElementsAre(1), ElementsAre(2, 0)));
}

TEST(AssignBuckets, OfNothingIsNothing) { EXPECT_TRUE(Assign({}, Bytes(1), Bytes(1)).empty()); }

// ---- On ranks of the in-memory fabric ----

nn::MlpConfig Config() { return {.inputs = 6, .hidden = {10, 7}, .classes = 4}; }
constexpr int64_t kParameters = 6 * 10 + 10 + 10 * 7 + 7 + 7 * 4 + 4;

// One rank's replica of a small model with a batch of its own.
struct Replica {
  explicit Replica(RankContext& ctx, DdpOptions options = {}, uint64_t seed = 5, MakeReducer make_reducer = {})
      : rank(ctx.rank()),
        context{.device = ctx.device(), .stream = ctx.device().compute(), .seed = seed},
        owned(std::make_unique<nn::MlpModel>(Config())),
        model(*owned) {
    model.Finalize();
    ddp.emplace(context, OneChunk(std::move(owned)), ctx.world(), options, std::move(make_reducer));
    inputs = context.Activation(Shape{3, 6}, DType::kF32);
    targets = context.Activation(Shape{3}, DType::kI32);
  }
  void Backward(int sample = 0) {
    for (int64_t i = 0; i < inputs.numel(); ++i) {
      inputs.data<float>()[i] = NormalAt(MakeKey(100 + rank + 10 * sample, "inputs"), static_cast<uint64_t>(i));
    }
    for (int i = 0; i < 3; ++i) targets.data<int32_t>()[i] = (i + rank + sample) % 4;
    nn::Saved saved, loss;
    nn::SoftmaxCrossEntropy::Forward(context, model.Forward(context, inputs, saved), targets, loss);
    model.Backward(context, nn::SoftmaxCrossEntropy::Backward(context, loss), saved);
  }
  std::string AllBytes(bool gradients) const {
    std::string bytes;
    for (const nn::Parameter* p : model.Parameters()) {
      const Tensor& t = gradients ? p->gradient() : p->data();
      bytes.append(static_cast<const char*>(t.raw()), static_cast<size_t>(t.bytes().value()));
    }
    return bytes;
  }
  std::string GradientBytes() const { return AllBytes(true); }
  std::string ParameterBytes() const { return AllBytes(false); }

  int rank;
  nn::Context context;
  std::unique_ptr<nn::MlpModel> owned;  // until the layout takes it
  nn::MlpModel& model;
  std::optional<DistributedDataParallel> ddp;
  Tensor inputs, targets;
};

// Small enough for several buckets of the model above.
DdpOptions SmallBuckets(bool overlap = true) {
  return {.bucket = Bytes(200), .first_bucket = Bytes(100), .overlap = overlap};
}

TEST(Ddp, GradientsAreViewsIntoBucketsInReverseOrder) {
  ExpectOnRanks(2, [](RankContext& ctx) -> std::string {
    Replica r(ctx, SmallBuckets());
    std::vector<Tensor> buckets;
    for (const FlatGradient& flat : r.ddp->Gradients()) {
      buckets.push_back(flat.gradient);
      for (const optim::SlicePart& part : flat.parts) {
        const Tensor there = flat.gradient.Slice(part.offset, part.count);
        if (there.address() != part.parameter->gradient().address()) return part.parameter->name() + " is elsewhere";
      }
    }
    int64_t elements = 0;
    for (const Tensor& b : buckets) elements += b.numel();
    if (elements != kParameters) return "buckets hold other than the parameters";
    const std::vector<nn::Parameter*> parameters = r.model.Parameters();
    if (parameters.back()->gradient().address() != buckets[0].address()) return "the last parameter is not first";
    const Tensor& first = parameters.front()->gradient();
    if (first.address() + static_cast<Address>(first.bytes().value()) !=
        buckets.back().address() + static_cast<Address>(buckets.back().bytes().value())) {
      return "the first parameter is not last";
    }
    return buckets.size() > 2 ? "" : "too few buckets for this test";
  });
}

TEST(Ddp, AveragesTheGradientsOfAllRanks) {
  const std::vector<std::string> alone = OnRanks(3, [](RankContext& ctx) {  // nothing sent: each rank's own
    Replica r(ctx);
    r.ddp->BeginMicroBatch(/*last=*/false);
    r.Backward();
    return r.GradientBytes();
  });
  const std::vector<std::string> averaged = OnRanks(3, [](RankContext& ctx) {
    Replica r(ctx, SmallBuckets());
    r.Backward();
    r.ddp->FinishGradients();
    return r.GradientBytes();
  });
  EXPECT_EQ(averaged[0], averaged[1]);
  EXPECT_EQ(averaged[0], averaged[2]);
  std::vector<std::vector<float>> own(3, std::vector<float>(kParameters));
  std::vector<float> mean(kParameters);
  for (size_t i = 0; i < 3; ++i) std::memcpy(own[i].data(), alone[i].data(), alone[i].size());
  std::memcpy(mean.data(), averaged[0].data(), averaged[0].size());
  for (size_t i = 0; i < mean.size(); ++i) {
    EXPECT_NEAR(mean[i], (own[0][i] + own[1][i] + own[2][i]) / 3, 1e-6) << "element " << i;
  }
}

TEST(Ddp, GivesTheSameBitsWithAndWithoutOverlap) {
  const auto run = [](bool overlap) {
    return OnRanks(2, [overlap](RankContext& ctx) {
      Replica r(ctx, SmallBuckets(overlap));
      r.Backward();
      if (!overlap && r.ddp->reductions() != 0) return std::string("reduced during backward");
      if (overlap && r.ddp->reductions() == 0) return std::string("did not reduce during backward");
      r.ddp->FinishGradients();
      return r.GradientBytes();
    });
  };
  const auto with = run(true);
  EXPECT_EQ(with, run(false));
  EXPECT_EQ(with[0].size(), kParameters * sizeof(float));
}

TEST(Ddp, SendsNothingUntilTheLastMicroBatchAndTheSumThen) {
  ExpectOnRanks(2, [](RankContext& ctx) -> std::string {
    Replica r(ctx, SmallBuckets());
    r.ddp->BeginStep();
    for (const int micro_batch : {0, 1}) {
      r.ddp->BeginMicroBatch(/*last=*/false);
      r.Backward(micro_batch);
    }
    if (r.ddp->reductions() != 0) return "something was reduced before the last micro-batch";
    const std::string before = r.GradientBytes();
    r.ddp->BeginMicroBatch(/*last=*/true);
    r.Backward(2);
    r.ddp->FinishGradients();
    if (r.ddp->reductions() != static_cast<int64_t>(r.ddp->Gradients().size())) return "not one reduction a bucket";
    return before != r.GradientBytes() ? "" : "the last micro-batch added nothing";
  });
}

TEST(Ddp, GivesTheSameMeanReducingEveryMicroBatch) {
  const auto gradients = [](bool every, bool overlap) {
    return OnRanks(3, [every, overlap](RankContext& ctx) -> std::string {
      DdpOptions options = SmallBuckets(overlap);
      options.reduce_every_micro_batch = every;
      Replica r(ctx, options);
      const auto buckets = static_cast<int64_t>(r.ddp->Gradients().size());
      for (int step = 0; step < 2; ++step) {
        r.ddp->BeginStep();
        for (int m = 0; m < 3; ++m) {
          r.ddp->BeginMicroBatch(m == 2);
          r.Backward(3 * step + m);
        }
        r.ddp->FinishGradients();
      }
      if (r.ddp->reductions() != 2 * buckets * (every ? 3 : 1)) return "";
      return r.GradientBytes();
    });
  };
  const std::string once = gradients(false, true)[0];
  for (const bool overlap : {true, false}) {
    const std::vector<std::string> every = gradients(true, overlap);
    EXPECT_EQ(every[0], every[1]);
    ASSERT_EQ(every[0].size(), kParameters * sizeof(float));
    for (size_t i = 0; i < once.size(); i += sizeof(float)) {
      float a, b;
      std::memcpy(&a, &once[i], sizeof(a));
      std::memcpy(&b, &every[0][i], sizeof(b));
      EXPECT_NEAR(a, b, 1e-5) << "element " << i / sizeof(float);
    }
  }
}

// Of equal micro-batches every mean is the same one, rounded on its way; the sum of many is that often it. BF16 has 8
// bits: a sum that is rounded to it stops growing at 256 of them.
TEST(Ddp, SumsOverManyMicroBatchesStayInTheGradientsType) {
  constexpr int kMicroBatches = 512;
  const auto gradients = [](int micro_batches, bool overlap) {
    return OnRanks(2, [micro_batches, overlap](RankContext& ctx) -> std::string {
      DdpOptions options = SmallBuckets(overlap);
      options.reduce_every_micro_batch = true;
      Replica r(ctx, options, 5, MeanReducers(DType::kBF16));
      std::string first;
      for (int step = 0; step < 2; ++step) {
        r.ddp->BeginStep();
        for (int m = 0; m < micro_batches; ++m) {
          r.ddp->BeginMicroBatch(m + 1 == micro_batches);
          r.Backward();
        }
        r.ddp->FinishGradients();
        if (step == 0) first = r.GradientBytes();
      }
      return first == r.GradientBytes() ? first : "";  // nothing of a step is left in the next
    });
  };
  const std::string one = gradients(1, true)[0];
  ASSERT_EQ(one.size(), kParameters * sizeof(float));
  for (const bool overlap : {true, false}) {
    const std::vector<std::string> many = gradients(kMicroBatches, overlap);
    EXPECT_EQ(many[0], many[1]);
    ASSERT_EQ(many[0].size(), one.size());
    for (size_t i = 0; i < one.size(); i += sizeof(float)) {
      float mean, sum;
      std::memcpy(&mean, &one[i], sizeof(mean));
      std::memcpy(&sum, &many[0][i], sizeof(sum));
      ASSERT_NEAR(sum, kMicroBatches * mean, 1e-4 * kMicroBatches * std::abs(mean)) << "element " << i / sizeof(float);
    }
  }
}

// Gradients that arrive as exactly as they left are added up where they are; others a second time, from the second
// micro-batch to the step's end.
TEST(Ddp, HoldsASecondSumOnlyWhereTheWayRounds) {
  ExpectOnRanks(2, [](RankContext& ctx) -> std::string {
    const auto gradients = [&ctx] {
      return ctx.memory().live_by_category[static_cast<size_t>(Category::kGradients)].value();
    };
    const auto held = [&](DType gradient, DType wire, int micro_batches) {
      Replica r(ctx, {.gradient = gradient, .reduce_every_micro_batch = true}, 5, MeanReducers(wire));
      const int64_t before = gradients();
      r.ddp->BeginStep();
      for (int m = 0; m < micro_batches; ++m) {
        r.ddp->BeginMicroBatch(m + 1 == micro_batches);
        r.Backward(m);
      }
      const int64_t during = gradients() - before;
      r.ddp->FinishGradients();
      return gradients() == before ? during : -1;
    };
    constexpr int64_t kBytes = (kParameters * 4 + 511) / 512 * 512;
    if (held(DType::kF32, DType::kBF16, 2) != kBytes) return "other than one more set of gradients";
    if (held(DType::kF32, DType::kBF16, 1) != 0) return "one micro-batch has nothing to add up";
    if (held(DType::kF32, DType::kF32, 2) != 0) return "a second set where nothing is rounded";
    if (held(DType::kF32, DType::kF64, 2) != 0) return "a second set where a wider type travels";
    return "";
  });
}

TEST(Ddp, ReducesOncePerStepOverManySteps) {
  ExpectOnRanks(2, [](RankContext& ctx) -> std::string {
    Replica r(ctx, SmallBuckets());
    for (int step = 0; step < 3; ++step) {
      r.ddp->BeginStep();
      r.Backward(step);
      r.ddp->FinishGradients();
    }
    return r.ddp->reductions() == 3 * static_cast<int64_t>(r.ddp->Gradients().size()) ? "" : "other than 3 a bucket";
  });
}

TEST(Ddp, StartsAllRanksFromRankZero) {
  const std::vector<std::string> parameters = OnRanks(3, [](RankContext& ctx) {
    return Replica(ctx, {}, /*seed=*/static_cast<uint64_t>(ctx.rank())).ParameterBytes();
  });
  EXPECT_EQ(parameters[0], parameters[1]);
  EXPECT_EQ(parameters[0], parameters[2]);
  const auto of_seed_0 = OnRanks(1, [](RankContext& ctx) { return Replica(ctx, {}, 0).ParameterBytes(); });
  EXPECT_EQ(parameters[0], of_seed_0[0]);
}

// Two batch norms, so that buffers of several layers share the flat tensor.
TEST(Ddp, AveragesBuffersWhenAskedAndNoSooner) {
  for (const int ranks : {1, 3}) {
    ExpectOnRanks(ranks, [](RankContext& ctx) -> std::string {
      nn::Context context{.device = ctx.device(), .stream = ctx.device().compute(), .seed = 5};
      auto owned = std::make_unique<nn::Sequential>();
      nn::Sequential& model = *owned;
      model.Add("a", std::make_unique<nn::BatchNorm>(nn::BatchNormConfig{.channels = 2}));
      model.Add("b", std::make_unique<nn::BatchNorm>(nn::BatchNormConfig{.channels = 3}));
      model.Finalize();
      DistributedDataParallel ddp(context, OneChunk(std::move(owned)), ctx.world(), {});
      const std::vector<nn::Parameter*> buffers = model.Buffers();
      if (buffers.size() != 4) return "other than 4 buffers";
      for (size_t b = 0; b < 4; ++b) {
        for (int64_t i = 0; i < buffers[b]->numel(); ++i) {
          float& value = buffers[b]->data().data<float>()[i];
          if (value != static_cast<float>(b % 2))
            return buffers[b]->name() + " started otherwise";  // means 0, variances 1
          value = static_cast<float>(100 * static_cast<int64_t>(b) + 10 * i + 3 * ctx.rank());
        }
      }
      ddp.AverageBuffers();
      context.stream.Synchronize();
      for (size_t b = 0; b < 4; ++b) {
        for (int64_t i = 0; i < buffers[b]->numel(); ++i) {
          const auto mean =
              static_cast<float>(100 * static_cast<int64_t>(b) + 10 * i + 3 * (ctx.world().size() - 1) / 2);
          if (std::abs(buffers[b]->data().data<float>()[i] - mean) > 1e-4f)
            return buffers[b]->name() + " is not the mean";
        }
      }
      return "";
    });
  }
}

TEST(Ddp, SendsNothingAlone) {
  ExpectOnRanks(1, [](RankContext& ctx) -> std::string {
    Replica r(ctx, SmallBuckets());
    r.Backward();
    r.ddp->FinishGradients();
    if (r.ddp->reductions() != 0) return "reduced with itself";
    return ctx.communication().entries().empty() ? "" : "communicated with itself";
  });
}

TEST(Ddp, HandsTheOptimizerEveryParameterWhole) {
  ExpectOnRanks(2, [](RankContext& ctx) -> std::string {
    Replica r(ctx, SmallBuckets());
    const std::vector<optim::Slice> slices = r.ddp->Slices();
    int64_t elements = 0;
    for (const optim::Slice& s : slices) {
      if (s.data.numel() != s.gradient.numel()) return s.name + ": data and gradient differ in size";
      elements += s.data.numel();
    }
    return elements == kParameters ? "" : "not every parameter";
  });
}

TEST(Ddp, KeepsGradientsInTheirOwnType) {
  ExpectOnRanks(2, [](RankContext& ctx) -> std::string {
    DdpOptions options = SmallBuckets();
    options.gradient = DType::kF64;
    Replica r(ctx, options);
    for (const auto& [bucket, parts] : r.ddp->Gradients()) {
      if (bucket.dtype() != DType::kF64) return "a bucket of another type";
    }
    const auto& live = ctx.memory().live_by_category;
    if (live[static_cast<size_t>(Category::kParameters)].value() == 0) return "parameters are not accounted as such";
    const int64_t gradients = live[static_cast<size_t>(Category::kGradients)].value();
    return gradients >= kParameters * 8 ? "" : "gradients are not accounted as such";
  });
}

// Notes what it is asked to do, and halves the mean.
class HalvingReducer : public Reducer {
 public:
  HalvingReducer(const Bucket& bucket, std::vector<std::string>& calls) : bucket_(bucket), calls_(calls) {}
  void BeginStep(nn::Context&, double scale) override { scale_ = scale; }
  Work Start(nn::Context&, Tensor in, Tensor, bool last) override {
    calls_.push_back(StrCat("start ", bucket_.index, last ? " last" : "", " ", scale_));
    mean_ = std::move(in);
    return bucket_.groups.replicate->AllReduce(mean_, ReduceOp::kAvg);
  }
  Tensor Mean(nn::Context& ctx) override {
    calls_.push_back(StrCat("mean ", bucket_.index));
    ctx.Launch(ops::Scale{.x = mean_, .factor = 0.5});
    return std::exchange(mean_, Tensor());
  }

 private:
  const Bucket bucket_;
  std::vector<std::string>& calls_;
  double scale_ = 0;
  Tensor mean_;
};

TEST(Ddp, SendsEveryBucketThroughTheReducerInOrder) {
  const auto gradients = [](bool halved) {
    return OnRanks(2, [halved](RankContext& ctx) -> std::string {
      std::vector<std::string> calls;
      MakeReducer make;
      if (halved)
        make = [&](nn::Context&, const Bucket& bucket) { return std::make_unique<HalvingReducer>(bucket, calls); };
      Replica r(ctx, SmallBuckets(), 5, make);
      r.ddp->BeginStep(8);
      r.Backward();
      r.ddp->FinishGradients();
      const size_t buckets = r.ddp->Gradients().size();
      if (halved && calls.size() != 2 * buckets) return "not each bucket once";
      for (size_t i = 0; halved && i < buckets; ++i) {
        if (calls[i] != StrCat("start ", i, " last 8")) return "out of order: " + calls[i];
        if (calls[buckets + i] != StrCat("mean ", i)) return "out of order: " + calls[buckets + i];
      }
      return r.GradientBytes();
    });
  };
  const std::string whole = gradients(false)[0], half = gradients(true)[0];
  ASSERT_EQ(half.size(), whole.size());
  for (size_t i = 0; i < whole.size(); i += sizeof(float)) {
    float a, b;
    std::memcpy(&a, &whole[i], sizeof(a));
    std::memcpy(&b, &half[i], sizeof(b));
    ASSERT_EQ(a * 0.5f, b);
  }
}

using DdpDeathTest = ::testing::Test;

TEST(DdpDeathTest, NamesAParameterWithoutAGradient) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(OnRanks(2,
                       [](RankContext& ctx) -> std::string {
                         Replica r(ctx, SmallBuckets());
                         r.ddp->FinishGradients();  // no backward pass at all
                         return "";
                       }),
               "layers.* got no gradient");
}

}  // namespace ddp_test
}  // namespace twofold
