// Trainings whose steps have unlike numbers of micro-batches.
#include <gtest/gtest.h>

#include <string>

#include "core/base/strings.h"
#include "experiments/program/predict_here.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace predict_steps_test {

struct Case {
  std::string name, parallel;
  int64_t dp, warm_up;
};

spec::Spec SpecOf(const Case& c, int64_t micro_batches) {
  const auto spec = ResolveSpec(
      StrCat("model { llama { layers: 8 hidden: 512 heads: 8 kv_heads: 4 ffn: 1024 vocab: 2048 sequence: 512 } }\n"
             "train { steps: 2 warmup_steps: 1 micro_batch: 1 global_batch: ",
             micro_batches * c.dp, " clip_norm: 1 precision { parameter: BF16 } }\nparallel { dp: ", c.dp, " ",
             c.parallel, " }\nfabric { simulated { cluster: \"dgx-h100\" } }\ntrace { enabled: false }\n"),
      "job");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(spec::Spec());
}

class PredictStepsTest : public ::testing::TestWithParam<Case> {};

// The report of each step is that of a training of such steps alone, but for what the step before leaves to do.
constexpr double kBegin = 5e-4;

TEST_P(PredictStepsTest, AStepTakesAsLongAfterFewMicroBatchesAsAfterMany) {
  const Case& c = GetParam();
  const std::vector<int64_t> counts = {c.warm_up, 4, 6, 8};
  const auto steps = PredictSteps(SpecOf(c, 8), "job", counts);
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), counts.size());
  for (size_t i = 1; i < counts.size(); ++i) {
    const report::Report& step = (*steps)[i];
    const auto alone = PredictHere(SpecOf(c, counts[i]), "job");
    ASSERT_TRUE(alone.ok()) << alone.status();
    const double seconds = alone->median_step_seconds();
    EXPECT_NEAR(step.median_step_seconds(), seconds, kBegin * seconds);
    EXPECT_NEAR(step.exposed_communication_seconds(), alone->exposed_communication_seconds(), kBegin * seconds);
    EXPECT_NEAR(step.bubble_fraction(), alone->bubble_fraction(), kBegin);
    EXPECT_EQ(step.bubble_fraction() > 0, c.parallel.find("pp") != std::string::npos);
    EXPECT_NEAR(step.low(), alone->low(), 2 * kBegin * seconds);
    EXPECT_NEAR(step.high(), alone->high(), 2 * kBegin * seconds);
    EXPECT_NEAR(step.tokens_per_second(), alone->tokens_per_second(), kBegin * alone->tokens_per_second());
    EXPECT_NEAR(step.mfu(), alone->mfu(), kBegin * alone->mfu());
    if (i + 1 < counts.size()) continue;
    EXPECT_EQ(step.ranks(0).reserved_bytes(), alone->ranks(0).reserved_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, PredictStepsTest,
    ::testing::Values(Case{"ddp", "tp: 2", 4, 1}, Case{"full_shard", "sharding: FULL_SHARD", 16, 1},
                      Case{"one_f_one_b", "pp: 4 tp: 2", 2, 4}, Case{"gpipe", "pp: 2 schedule: GPIPE", 2, 2},
                      Case{"interleaved", "pp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", 2, 2},
                      Case{"zero_bubble", "pp: 4 schedule: ZERO_BUBBLE_H1 sharding: ZERO_1", 2, 4}),
    [](const auto& info) { return info.param.name; });

TEST(PredictSteps, NoNumbersAreThoseOfTheSpec) {
  const spec::Spec spec = SpecOf({"", "pp: 2", 2, 2}, 4);
  const auto steps = PredictSteps(spec, "job", {});
  const auto alone = PredictHere(spec, "job");
  ASSERT_TRUE(steps.ok() && alone.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 1U);
  EXPECT_EQ((*steps)[0].median_step_seconds(), alone->median_step_seconds());
}

// Steps that repeat are counted. They have the bubble of the one that they repeat.
TEST(PredictSteps, CountedStepsHaveABubble) {
  spec::Spec spec = SpecOf({"", "pp: 2", 2, 2}, 4);
  const auto two = PredictHere(spec, "job");
  spec.mutable_train()->set_steps(30), spec.mutable_train()->set_warmup_steps(20);
  const auto many = PredictHere(spec, "job");
  ASSERT_TRUE(two.ok() && many.ok()) << two.status();
  EXPECT_GT(two->bubble_fraction(), 0.1);
  EXPECT_NEAR(many->bubble_fraction(), two->bubble_fraction(), 1e-3);
}

TEST(PredictSteps, AFailureIsOneReport) {
  spec::Spec spec = SpecOf({"", "", 1, 1}, 4);
  spec.mutable_memory()->set_budget_mib(20);
  const auto steps = PredictSteps(spec, "job", {1, 4});
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 1U);
  EXPECT_EQ((*steps)[0].outcome(), report::OUT_OF_MEMORY);
}

}  // namespace predict_steps_test
}  // namespace twofold
