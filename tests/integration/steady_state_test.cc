// Steps that are counted give the figures of those that are simulated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/same_figures.h"

namespace twofold {
namespace steady_state_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGpt[] = "gpt { layers: 4 hidden: 64 heads: 8 vocab: 512 sequence: 16 dropout: 0.1 }";
constexpr char kExperts[] =
    "moe { llama { layers: 2 hidden: 64 heads: 8 vocab: 512 sequence: 16 } experts: 4 top_k: 2 }";
constexpr char kH100[] = "cluster: \"dgx-h100\"", kA100[] = "cluster: \"dgx-a100\"";

struct Case {
  const char* label;
  const char* model;
  const char* parallel;
  const char* simulated;
  const char* train = "";
  bool counts = true;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

const Case kCases[] = {
    {"OneRank", kGpt, "", kH100},
    {"Ddp", kGpt, "dp: 16", kH100},
    {"Zero1", kGpt, "dp: 16 sharding: ZERO_1", kH100, "clip_norm: 1"},
    {"Zero3", kGpt, "dp: 16 sharding: ZERO_3", kH100},
    {"EveryRank", kGpt, "dp: 4 tp: 4 sharding: ZERO_2", "cluster: \"dgx-h100\" folding: OFF"},
    {"Pipeline", kGpt, "pp: 4 dp: 4", kA100},
    {"Interleaved", kGpt, "pp: 2 dp: 2 tp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", kA100},
    {"ZeroBubble", kGpt, "pp: 4 dp: 2 tp: 2 schedule: ZERO_BUBBLE_H1 sharding: ZERO_1", kA100},
    {"Context", kGpt, "dp: 2 cp: 2 tp: 2", kA100},
    {"Experts", kExperts, "pp: 2 dp: 4 ep: 2 tp: 2", kA100},
    {"Offload", kGpt, "dp: 4 sharding: ZERO_3 offload: OFFLOAD_OPTIMIZER", kH100},
    {"Straggler", kGpt, "pp: 2 dp: 4 tp: 2", "cluster: \"dgx-a100\" stragglers { rank: 5 factor: 1.5 }"},
    {"Jitter", kGpt, "pp: 2 dp: 4 tp: 2", "cluster: \"dgx-a100\" network { jitter: 0.1 }"},
    {"Spray", kGpt, "dp: 16 sharding: ZERO_1", "cluster: \"dgx-h100-16k\" routing: \"spray\""},
    {"Adaptive", kGpt, "dp: 16", "cluster: \"polaris\""},
    {"PowerSgdFromItsStart", kGpt, "dp: 8 compression { power_sgd { rank: 2 start_step: 5 } }", kH100},
    {"SimGrid", kGpt, "dp: 16", "cluster: \"dgx-h100\" solver: SIMGRID", "", false},
    // some steps do more than the others
    {"LocalUpdates", kGpt, "dp: 4", kH100, "report_loss_every: 1 local_update { local_sgd { every_steps: 5 } }", false},
    {"DynamicLossScale", kGpt, "dp: 4", kH100, "precision { parameter: F16 loss_scale { dynamic {} } }", false},
    {"LossesNotRead", kGpt, "dp: 4", kH100, "report_loss_every: 2", false},
};

class SteadyState : public ::testing::TestWithParam<Case> {};

TEST_P(SteadyState, CountedStepsAreLikeSimulatedOnes) {
  const Case& c = GetParam();
  const auto text = [&c](std::string_view how) {
    return StrCat("model { ", c.model, " }\ntrain { steps: 12 warmup_steps: 2 micro_batch: 1 global_batch: 16 ",
                  c.train, " }\nparallel { ", c.parallel, " }\nfabric { simulated { ", c.simulated,
                  " steady_state: ", how, " } }\n");
  };
  spec::Spec every = test::Resolve(text("SIMULATE")), few = test::Resolve(text("COUNT"));
  const RunResult simulated = test::RunResolved(every), counted = test::RunResolved(few);
  ASSERT_TRUE(simulated.status.ok() && counted.status.ok()) << simulated.status << " " << counted.status;
  const auto told = Contains(HasSubstr("counted, not simulated"));
  EXPECT_THAT(simulated.notes, Not(told));
  if (c.counts)
    EXPECT_THAT(counted.notes, told);
  else
    EXPECT_THAT(counted.notes, Not(told));
  test::ExpectSameFigures(test::RecordsOf(few, counted), test::RecordsOf(every, simulated));
}

INSTANTIATE_TEST_SUITE_P(Cases, SteadyState, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.label; });

// 12 steps, of which the last is traced. The third is like the second, and took as long, so the fourth need not run.
TEST(SteadyStateOfDdp, SaysWhichStepsWereCounted) {
  spec::Spec spec = test::Resolve(
      StrCat("model { ", kGpt, " }\ntrain { steps: 12 }\nparallel { dp: 8 }\nfabric { simulated { ", kH100, " } }\n"));
  EXPECT_THAT(test::RunResolved(spec).notes, Contains(HasSubstr("steps 4 to 11 repeat step 3 exactly")));
}

TEST(SteadyStateOfDdp, SimulatesWhatIsLeftOfAVeryLongRun) {
  spec::Spec spec = test::Resolve(StrCat(
      "model { ", kGpt, " }\ntrain { steps: 70000 }\nparallel { dp: 8 }\nfabric { simulated { ", kH100, " } }\n"));
  const RunResult result = test::RunResolved(spec);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.notes, Contains(HasSubstr("steps 4 to 65539 repeat step 3 exactly")));
  EXPECT_EQ(test::RecordsOf(spec, result).at(7).steps_size(), 70000);
}

}  // namespace steady_state_test
}  // namespace twofold
