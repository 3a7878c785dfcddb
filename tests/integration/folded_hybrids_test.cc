// A stage's ranks that run as one give the figures that all give: trainers of hybrids on A100 nodes, folded and
// unfolded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "tests/integration/same_figures.h"

namespace twofold {
namespace folded_hybrids_test {

constexpr char kGpt[] = "gpt { layers: 4 hidden: 64 heads: 8 vocab: 512 sequence: 16 dropout: 0.1 }";
constexpr char kExperts[] =
    "moe { llama { layers: 2 hidden: 64 heads: 8 vocab: 512 sequence: 16 } experts: 4 top_k: 2 }";

constexpr char kUneven[] =
    "moe { llama { layers: 2 hidden: 64 heads: 8 vocab: 512 sequence: 16 } experts: 8 top_k: 2 dropless: true "
    "routing { zipf { exponent: 1 } } }";
constexpr char kLlama[] = "llama { layers: 4 hidden: 64 heads: 8 ffn: 128 vocab: 512 sequence: 16 }";
constexpr char kFewHeads[] = "llama { layers: 4 hidden: 64 heads: 8 kv_heads: 2 ffn: 128 vocab: 512 sequence: 16 }";

struct Case {
  const char* label;
  const char* model;
  const char* parallel;
  size_t classes;
  const char* train = "";
  const char* simulated = "";
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

const Case kCases[] = {
    {"Tensor", kGpt, "tp: 4 dp: 2", 1},
    {"SequenceParallel", kGpt, "tp: 8 dp: 2 sequence_parallel: true", 1, "activation_checkpointing {}"},
    {"Pipeline", kGpt, "pp: 4 dp: 2", 4},
    {"Hybrid", kGpt, "pp: 2 dp: 2 tp: 2", 2},
    {"Interleaved", kGpt, "pp: 2 dp: 2 tp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", 2},
    {"ZeroBubble", kGpt, "pp: 4 dp: 2 tp: 2 schedule: ZERO_BUBBLE_H1", 4},
    {"Zero1", kGpt, "pp: 2 dp: 4 tp: 2 sharding: ZERO_1", 2},
    {"Zero3", kGpt, "pp: 2 dp: 4 tp: 2 sharding: ZERO_3", 2},
    {"Context", kGpt, "dp: 2 cp: 2 tp: 2", 2},
    {"Experts", kExperts, "pp: 2 dp: 4 ep: 2 tp: 2", 2},
    // each of four places along ep has other experts
    {"UnevenExperts", kUneven, "dp: 16 ep: 4", 4},
    {"UnevenExperts3D", kUneven, "pp: 2 dp: 8 ep: 4 tp: 2", 8, "activation_checkpointing {}"},
    {"UnevenExpertsClipped", kUneven, "dp: 16 ep: 2 sharding: ZERO_3", 0, "clip_norm: 1"},
    // along tp, the first rank counts what all share
    {"Clipped", kGpt, "pp: 2 dp: 4 tp: 2", 4, "clip_norm: 1"},
    {"ClippedWithFewHeads", kFewHeads, "dp: 2 tp: 8", 4, "clip_norm: 1"},
    {"LossScale", kGpt, "dp: 4 tp: 4", 2, "precision { parameter: F16 loss_scale { dynamic {} } }"},
    // shards have different parts of what ranks along tp share
    {"SequenceParallelZero1", kGpt, "dp: 4 tp: 4 sequence_parallel: true sharding: ZERO_1", 4},
    {"SequenceParallelZero3Clipped", kGpt, "pp: 2 dp: 4 tp: 4 sequence_parallel: true sharding: ZERO_3", 0,
     "clip_norm: 1"},
    {"SequenceParallelLlamaZero3Clipped", kLlama, "dp: 8 tp: 2 sequence_parallel: true sharding: ZERO_3", 0,
     "clip_norm: 1"},
    {"SequenceParallelLlamaZero1", kLlama, "pp: 2 dp: 8 tp: 2 sequence_parallel: true sharding: ZERO_1", 0},
    {"SequenceParallelLlamaHybridShards", kLlama,
     "dp: 8 tp: 4 sequence_parallel: true sharding: HYBRID_SHARD shard_group: 4", 0},
    {"SequenceParallelFewHeadsZero3", kFewHeads, "dp: 16 tp: 4 sequence_parallel: true sharding: ZERO_3", 0},
    {"FewHeadsZero2", kFewHeads, "dp: 8 tp: 4 sharding: ZERO_2", 0},
    {"ClippedHybridShards", kGpt, "dp: 8 tp: 2 sharding: HYBRID_SHARD shard_group: 4", 0, "clip_norm: 1"},
    {"ClippedOffloaded", kGpt, "dp: 8 tp: 2 sharding: FULL_SHARD offload: OFFLOAD_ALL", 0, "clip_norm: 1"},
    {"ClippedOffloadedHybridShards", kGpt,
     "pp: 2 dp: 4 tp: 2 sharding: HYBRID_SHARD shard_group: 2 offload: OFFLOAD_ALL", 0, "clip_norm: 1"},
    {"ClippedExperts", kExperts, "dp: 8 ep: 4 tp: 2 sharding: ZERO_1", 0, "clip_norm: 1"},
    {"Straggler", kGpt, "pp: 2 dp: 4 tp: 2", 8, "", "stragglers { rank: 5 factor: 1.5 }"},
    {"Islands", kGpt, "dp: 8 tp: 2 islands: 2", 1, "local_update { diloco { every_steps: 1 } }"},
};

class FoldedHybrid : public ::testing::TestWithParam<Case> {};

TEST_P(FoldedHybrid, GivesTheSameFigures) {
  const Case& c = GetParam();
  const std::string text =
      StrCat("model { ", c.model, " }\ntrain { steps: 2 warmup_steps: 0 micro_batch: 1 global_batch: 16 ", c.train,
             " }\nparallel { ", c.parallel, " }\n");
  const auto on = [&](std::string_view folding) {
    return StrCat(text, "fabric { simulated { cluster: \"dgx-a100\" folding: ", folding, " ", c.simulated, " } }\n");
  };
  spec::Spec unfolded = test::Resolve(on("OFF")), folded = test::Resolve(on("AUTO"));
  const RunResult all = test::RunResolved(unfolded), few = test::RunResolved(folded);
  ASSERT_TRUE(all.status.ok() && few.status.ok()) << all.status << " " << few.status;
  EXPECT_THAT(few.notes, ::testing::Contains(::testing::HasSubstr("ranks are folded: ")));
  EXPECT_LT(few.results.kept().size(), all.results.size());
  if (c.classes > 0) {
    EXPECT_EQ(few.results.kept().size(), c.classes);
  }
  const auto expected = test::RecordsOf(unfolded, all), records = test::RecordsOf(folded, few);
  ASSERT_EQ(expected.size(), static_cast<size_t>(WorldSize(unfolded)));
  test::ExpectSameFigures(records, expected);
}

INSTANTIATE_TEST_SUITE_P(Cases, FoldedHybrid, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.label; });

// Where folding_error allows it, ranks that differ briefly are one: in the gradient norm, and in sums of few gradients.
// Times are off by what the report says at most; memory stays exact.
TEST(FoldedBriefly, DiffersByWhatTheReportSays) {
  for (const std::string label :
       {"Clipped", "ClippedWithFewHeads", "SequenceParallelZero3Clipped", "SequenceParallelLlamaZero3Clipped",
        "SequenceParallelLlamaHybridShards", "ClippedHybridShards", "ClippedOffloaded", "ClippedExperts"}) {
    const Case& c =
        *std::find_if(std::begin(kCases), std::end(kCases), [&](const Case& k) { return label == k.label; });
    const auto spec = [&](std::string_view simulated) {
      return test::Resolve(StrCat("model { ", c.model, " }\ntrain { steps: 2 warmup_steps: 1 micro_batch: 1 ",
                                  "global_batch: 16 ", c.train, " }\nparallel { ", c.parallel, " }\n",
                                  "fabric { simulated { cluster: \"dgx-a100\" noise: OFF ", simulated, " } }\n"));
    };
    spec::Spec unfolded = spec("folding: OFF"), exact = spec(""), folded = spec("folding_error: 0.9");
    const RunResult all = test::RunResolved(unfolded), some = test::RunResolved(exact), few = test::RunResolved(folded);
    ASSERT_TRUE(all.status.ok() && some.status.ok() && few.status.ok()) << label << ": " << all.status;
    EXPECT_LT(few.results.kept().size(), some.results.kept().size()) << label;
    EXPECT_GT(few.folding_adds, 0) << label;
    EXPECT_LT(few.folding_adds, 0.15) << label;
    EXPECT_THAT(few.notes, ::testing::Contains(::testing::HasSubstr("folded ranks differ ("))) << label;
    const auto every = test::RecordsOf(unfolded, all), records = test::RecordsOf(folded, few);
    double run = 0;
    for (const report::Step& step : records[0].steps()) run += step.seconds();
    const double longer = records[0].steps(1).seconds() - every[0].steps(1).seconds();
    EXPECT_GE(longer, -1e-9 * run) << label;  // the one that takes longest is simulated
    EXPECT_LE(longer, few.folding_adds * run) << label;
    for (size_t r = 0; r < every.size(); ++r)
      EXPECT_EQ(records[r].memory().SerializeAsString(), every[r].memory().SerializeAsString()) << label << " " << r;
  }
}

// Sums over different groups take unequally long: the longest is not the one of most elements.
TEST(FoldedBriefly, SumsOverSeveralGroupsTellRanksApart) {
  const auto ranks = [](std::string_view simulated) {
    spec::Spec spec =
        test::Resolve(StrCat("model { ", kFewHeads, " }\ntrain { steps: 2 micro_batch: 1 global_batch: 16 }\n",
                             "parallel { dp: 16 tp: 4 sequence_parallel: true sharding: ZERO_3 }\n",
                             "fabric { simulated { cluster: \"dgx-a100\" noise: OFF ", simulated, " } }\n"));
    const RunResult result = test::RunResolved(spec);
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result.results.kept().size();
  };
  EXPECT_EQ(ranks("folding_error: 0.9"), ranks(""));
}

// With devices that differ in speed, too, ranks that differ briefly are one, to what the report says.
TEST(FoldedBriefly, IsWhatTheReportSaysWhereDevicesDifferInSpeed) {
  const auto spec = [](std::string_view simulated) {
    return test::Resolve(StrCat("model { ", kLlama, " }\ntrain { steps: 2 warmup_steps: 1 micro_batch: 1 ",
                                "global_batch: 16 clip_norm: 1 }\n",
                                "parallel { dp: 8 tp: 2 sequence_parallel: true sharding: ZERO_3 }\n",
                                "fabric { simulated { cluster: \"dgx-a100\" ", simulated, " } }\n"));
  };
  spec::Spec unfolded = spec("folding: OFF"), folded = spec("folding_error: 0.9");
  const RunResult all = test::RunResolved(unfolded), few = test::RunResolved(folded);
  ASSERT_TRUE(all.status.ok() && few.status.ok()) << all.status << few.status;
  EXPECT_EQ(few.results.kept().size(), 1u);
  const auto every = test::RecordsOf(unfolded, all), records = test::RecordsOf(folded, few);
  const double longer = records[0].steps(1).seconds() - every[0].steps(1).seconds();
  double run = 0;
  for (const report::Step& step : records[0].steps()) run += step.seconds();
  EXPECT_GT(few.folding_adds, 0);
  EXPECT_LE(std::abs(longer), few.folding_adds * run);
}

// Ranks that are of several classes anyway do not differ briefly.
TEST(FoldedBriefly, CountsNothingWhereClassesAreAlike) {
  spec::Spec spec =
      test::Resolve(StrCat("model { ", kGpt, " }\ntrain { steps: 2 micro_batch: 1 global_batch: 4 clip_norm: 1 }\n",
                           "parallel { dp: 2 tp: 2 }\nfabric { simulated { cluster: \"dgx-a100\" folding_error: 0.9 ",
                           "stragglers { rank: 0 factor: 1.5 } stragglers { rank: 2 factor: 1.5 } } }\n"));
  const RunResult result = test::RunResolved(spec);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results.kept().size(), 2u);
  EXPECT_EQ(result.folding_adds, 0);
}

// Ranks along cp take unequally long for their parts of the causal mask; each step takes as long as its slowest rank.
TEST(FoldedContext, TheSlowestStandsForAll) {
  for (const std::string model : {kGpt, kFewHeads}) {
    const auto on = [&](std::string_view folding) {
      return StrCat("model { ", model, " }\ntrain { steps: 2 warmup_steps: 0 micro_batch: 1 global_batch: 4 }\n",
                    "parallel { dp: 2 cp: 4 }\nfabric { simulated { cluster: \"dgx-a100\" folding: ", folding,
                    " } }\n");
    };
    spec::Spec unfolded = test::Resolve(on("OFF")), folded = test::Resolve(on("ON"));
    const RunResult all = test::RunResolved(unfolded), few = test::RunResolved(folded);
    ASSERT_TRUE(all.status.ok() && few.status.ok()) << all.status << " " << few.status;
    EXPECT_EQ(few.results.kept().size(), 1u);
    EXPECT_THAT(few.notes, ::testing::Contains(::testing::HasSubstr("different parts of the causal mask, for which")));
    const auto every = test::RecordsOf(unfolded, all), records = test::RecordsOf(folded, few);
    const double whole = every[0].steps(1).seconds(), by_class = records[0].steps(1).seconds();
    EXPECT_NEAR(by_class, whole, 0.005 * whole);
    EXPECT_EQ(records[0].memory().SerializeAsString(), every[0].memory().SerializeAsString());
  }
}

}  // namespace folded_hybrids_test
}  // namespace twofold
