#include "experiments/program/sweep/points.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::sweep {
namespace points_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSpec[] =
    "model { mlp { inputs: 8 hidden: [16] classes: 4 } }\n"
    "train { steps: 4 global_batch: 48 micro_batch: 6 }\n"  // four micro-batches a step
    "parallel { dp: 2 }\n";

absl::StatusOr<Points> Of(Asked asked, const std::string& text = kSpec) {
  asked.file = "s";
  return PointsOf(text, asked);
}

TEST(Points, AreAllCombinationsTheLastFieldFastest) {
  const auto sweep = Of({.varied = {"parallel.dp=1,2", "train.steps=3,5,7"}, .measure = true});
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  ASSERT_EQ(sweep->points.size(), 6U);
  for (size_t i = 0; i < 6; ++i) {
    const spec::Spec& spec = **sweep->points[i].measured;
    EXPECT_EQ(spec.parallel().dp(), i < 3 ? 1 : 2);
    EXPECT_EQ(spec.train().steps(), static_cast<int64_t>(3 + 2 * (i % 3)));
    EXPECT_FALSE(spec.trace().enabled());
    EXPECT_TRUE(spec.fabric().has_in_memory());
    EXPECT_FALSE(sweep->points[i].predicted.has_value());
  }
}

TEST(Points, StrongScalingSharesTheGlobalBatch) {
  const auto sweep = Of({.varied = {"parallel.dp=1,2,3,5"}, .scaling = "strong", .predict = true, .measure = true});
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  const int64_t micro[] = {12, 6, 4};
  for (size_t i = 0; i < 3; ++i) {
    for (const auto* side : {&sweep->points[i].predicted, &sweep->points[i].measured}) {
      const spec::Train& train = (**side)->train();
      EXPECT_EQ(train.global_batch(), 48);
      EXPECT_EQ(train.micro_batch(), micro[i]);
      EXPECT_EQ(train.global_batch() / ((**side)->parallel().dp() * train.micro_batch()), 4);
    }
  }
  EXPECT_THAT(sweep->points[3].measured->status().message(),
              HasSubstr("train.global_batch=48 does not divide among 5 replicas of 4 micro-batches each "
                        "(parallel.dp=5); use a multiple of 20, such as 40 or 60"));
  EXPECT_EQ(sweep->points[3].predicted->status(), sweep->points[3].measured->status());
}

TEST(Points, WeakScalingKeepsTheWorkOfARank) {
  const auto sweep = Of({.varied = {"parallel.dp=1,2,5"}, .scaling = "weak", .measure = true});
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  for (const Point& point : sweep->points) {
    EXPECT_EQ((*point.measured)->train().micro_batch(), 6);
    EXPECT_EQ((*point.measured)->train().global_batch(), 24 * (*point.measured)->parallel().dp());
  }
}

TEST(Points, AnUnstatedGlobalBatchIsThatOfTheSpecWithoutVary) {
  constexpr char kText[] =
      "model { mlp { inputs: 8 hidden: [16] classes: 4 } } train { micro_batch: 8 } parallel { dp: 4 }";
  const auto strong = Of({.varied = {"parallel.dp=1,2,8"}, .scaling = "strong", .measure = true}, kText);
  const auto fixed = Of({.varied = {"parallel.dp=1,2,8"}, .fixed = {"train.global_batch"}, .measure = true}, kText);
  ASSERT_TRUE(strong.ok()) << strong.status();
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*strong->points[i].measured)->train().global_batch(), 32);
    if (i == 2) {  // micro-batches of 8 stay, so that 8 replicas are too many
      EXPECT_THAT(fixed->points[i].measured->status().message(), HasSubstr("global_batch"));
      continue;
    }
    EXPECT_EQ((*fixed->points[i].measured)->train().global_batch(), 32);
    EXPECT_EQ((*fixed->points[i].measured)->train().micro_batch(), 8);
  }
}

TEST(Points, MicroBatchesDivide) {
  EXPECT_EQ(*StrongMicroBatch(64, 4, 1), 16);
  EXPECT_EQ(*StrongMicroBatch(64, 4, 2), 8);
  EXPECT_EQ(*StrongMicroBatch(64, 64, 1), 1);
  EXPECT_THAT(StrongMicroBatch(64, 3, 1).status().message(), HasSubstr("a multiple of 3, such as 63 or 66"));
  EXPECT_THAT(StrongMicroBatch(64, 128, 1).status().message(), HasSubstr("a multiple of 128, such as 128"));
  EXPECT_THAT(StrongMicroBatch(64, 128, 1).status().message(), Not(HasSubstr(" or ")));
}

TEST(Points, PredictionsHaveTheLinksOfMeasurements) {
  const auto slow = Of({.sets = {"fabric.in_memory.link_gbps=2", "fabric.in_memory.latency_us=30",
                                 "fabric.in_memory.stragglers=[{ rank: 1 factor: 2 }, { rank: 0 factor: 3 }]"},
                        .varied = {"parallel.dp=2"},
                        .predict = true,
                        .measure = true});
  ASSERT_TRUE(slow.ok()) << slow.status();
  const spec::Simulated& simulated = (*slow->points[0].predicted)->fabric().simulated();
  EXPECT_EQ(simulated.link_gbps(), 2);
  EXPECT_EQ(simulated.latency_us(), 30);
  ASSERT_EQ(simulated.stragglers_size(), 2);
  EXPECT_EQ(simulated.stragglers(1).factor(), 3);
  EXPECT_EQ((*slow->points[0].measured)->fabric().in_memory().link_gbps(), 2);
  // of a cluster that is chosen, its own
  const auto own = Of({.sets = {"fabric.in_memory.link_gbps=2", "fabric.simulated.cluster=alps"},
                       .varied = {"parallel.dp=2"},
                       .predict = true,
                       .measure = true});
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ((*own->points[0].predicted)->fabric().simulated().link_gbps(), 0);
  const auto mpi = Of({.fabric = "mpi", .varied = {"parallel.dp=2"}, .predict = true, .measure = true});
  ASSERT_TRUE(mpi.ok()) << mpi.status();
  EXPECT_EQ((*mpi->points[0].predicted)->fabric().simulated().links(), "mpi");
  EXPECT_TRUE((*mpi->points[0].measured)->fabric().has_mpi());
}

TEST(Points, TheFabricSaysWhatIsRun) {
  const auto both = [](Asked asked) {
    const auto sweep = Of(std::move(asked));
    EXPECT_TRUE(sweep.ok()) << sweep.status();
    return sweep.ok() ? std::pair(sweep->predict, sweep->measure) : std::pair(false, false);
  };
  EXPECT_EQ(both({.varied = {"parallel.dp=1"}}), std::pair(false, true));
  EXPECT_EQ(both({.varied = {"parallel.dp=1"}, .predict = true}), std::pair(true, false));
  EXPECT_EQ(both({.sets = {"fabric.simulated.cluster=alps"}, .varied = {"parallel.dp=1"}}), std::pair(true, false));
  EXPECT_EQ(both({.fabric = "simulated", .varied = {"parallel.dp=1"}}), std::pair(true, false));
  EXPECT_EQ(both({.varied = {"fabric.simulated.cluster=alps,dgx-h100"}, .predict = true}), std::pair(true, false));
}

TEST(Points, RefusesWhatIsWrong) {
  const std::pair<Asked, const char*> kWrong[] = {
      {{}, "--vary is missing"},
      {{.varied = {"parallel.dp="}}, "use PATH=VALUE,VALUE"},
      {{.varied = {"parallel.dp"}}, "use PATH=VALUE,VALUE"},
      {{.varied = {"parallel.dq=1,2"}}, "--vary=parallel.dq=1: parallel.dq: \"dq\" is not a field; did you mean dp?"},
      {{.varied = {"parallel.dp=1,two"}}, "--vary=parallel.dp=two: parallel.dp: \"two\" is not valid"},
      {{.varied = {"parallel.dp=1,2,1"}}, "--vary=parallel.dp=1: 1 is listed twice"},
      {{.varied = {"parallel.dp=1", "parallel.dp=2"}}, "parallel.dp is varied twice"},
      {{.varied = {"parallel.dp=1", "parallel={dp: 2}"}}, "vary only one of them"},
      {{.varied = {"parallel.dp=0"}}, "parallel.dp: 0 is out of range"},
      {{.varied = {"parallel.dp=1"}, .fixed = {"parallel.dp"}}, "--fixed=parallel.dp: cannot stay the same"},
      {{.varied = {"parallel.dp=1"}, .fixed = {"train.global_bach"}}, "did you mean global_batch?"},
      {{.varied = {"parallel.dp=1"}, .fixed = {"train"}}, "must be a field with a single value"},
      {{.varied = {"parallel.dp=1"}, .fixed = {"train.global_batch"}, .scaling = "weak"},
       "follows from --scaling=weak"},
      {{.varied = {"train.micro_batch=1"}, .scaling = "strong"}, "follows from --scaling=strong"},
      {{.varied = {"parallel.dp=1"}, .scaling = "medium"}, "--scaling=medium: must be strong or weak"},
      {{.varied = {"fabric.simulated.nodes=1"}, .measure = true}, "leave out --measured"},
      {{.varied = {"fabric.in_memory.link_gbps=1"}, .predict = true}, "leave out --predicted"},
      {{.fabric = "simulated", .varied = {"parallel.dp=1"}, .measure = true}, "it only predicts"},
      {{.fabric = "smoke", .varied = {"parallel.dp=1"}}, "--fabric=smoke: unknown fabric"},
      {{.varied = {"parallel.dp=1"}, .repeats = 0}, "--repeats must be at least 1 (got 0)"},
      {{.varied = {"parallel.dp=1,2"}, .measure = true, .repeats = 501},
       "1002 measurements (2 points, 501 times each)"},
      {{.sets = {"train.micro_batch=7"}, .varied = {"parallel.dp=1"}, .scaling = "strong"},
       "48 is no whole number of micro-batches of 7 on 2 replicas"},
  };
  for (const auto& [asked, says] : kWrong) {
    const auto sweep = Of(asked);
    ASSERT_FALSE(sweep.ok()) << says;
    EXPECT_THAT(sweep.status().message(), HasSubstr(says));
  }
  std::string many = "train.seed=0";
  for (int i = 1; i < 400; ++i) many += "," + std::to_string(i);
  const auto sweep = Of({.varied = {many, "train.steps=" + many.substr(many.find(',') + 1)}, .predict = true});
  ASSERT_FALSE(sweep.ok());
  EXPECT_THAT(sweep.status().message(), HasSubstr("more than 100000 points"));
}

}  // namespace points_test
}  // namespace twofold::sweep
