// A pipeline holds the promises under every schedule: it trains like whole models, a simulated run with data gives the same bits,
// and one without, like `twofold memory`, predicts every rank's memory to the byte.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/integration/replayed.h"

namespace twofold {
namespace pipeline_test {

constexpr int kSamples = 24;  // of the global batch
constexpr int kSteps = 10;

struct Model {
  const char* name;
  const char* text;
};
constexpr Model kTied = {"Tied", "model { gpt { layers: 4 hidden: 16 heads: 2 sequence: 8 dropout: 0.1 } }\n"};
constexpr Model kUntied = {"Untied", "model { llama { layers: 4 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 sequence: 8 } }\n"};

struct Case {
  const char* label;
  Model model;
  int pp, dp, accumulation;
  const char* parallel;   // further fields
  const char* train = "";  // likewise
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

std::string Text(const Case& c) {
  return StrCat(c.model.text, "train { steps: ", kSteps, " micro_batch: ", kSamples / (c.dp * c.accumulation), " global_batch: ", kSamples,
                " optimizer { sgd { lr: 0.2 } } ", c.train, " }\nparallel { pp: ", c.pp, " dp: ", c.dp, " ", c.parallel, " }\n");
}

const Case kCases[] = {
    {"GPipe2", kTied, 2, 1, 4, "schedule: GPIPE"},
    {"GPipe4", kUntied, 4, 1, 3, "schedule: GPIPE"},
    {"OneFOneB2", kUntied, 2, 1, 4, ""},
    {"OneFOneB4", kTied, 4, 1, 6, ""},
    {"OneMicroBatch", kTied, 4, 1, 1, ""},
    {"Interleaved2", kTied, 2, 1, 4, "schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2"},
    {"ZeroBubble2", kUntied, 2, 1, 4, "schedule: ZERO_BUBBLE_H1"},
    {"ZeroBubble4", kTied, 4, 1, 6, "schedule: ZERO_BUBBLE_H1"},
    {"NoOverlap", kTied, 4, 1, 6, "overlap: false"},
    {"NoOverlapInterleaved", kTied, 2, 1, 6, "schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2 overlap: false"},
    {"StageLayers", kTied, 2, 1, 3, "stage_layers: [3, 1]"},
    {"ByCost", kUntied, 2, 1, 3, "stage_balance: BY_COST"},
    {"Ddp", kTied, 2, 2, 3, "bucket_mib: 0.01"},
    {"DdpInterleaved", kUntied, 2, 2, 2, "schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2 bucket_mib: 0.01"},
    {"DdpZeroBubble", kTied, 2, 2, 3, "schedule: ZERO_BUBBLE_H1 bucket_mib: 0.01"},
    {"Zero1", kTied, 2, 2, 3, "sharding: ZERO_1"},
    {"Zero2", kTied, 2, 2, 3, "sharding: ZERO_2"},
    {"Zero3", kTied, 2, 2, 3, "sharding: ZERO_3"},
    {"Zero1Interleaved", kTied, 2, 2, 2, "sharding: ZERO_1 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2"},
    {"Zero3Interleaved", kTied, 2, 2, 2, "sharding: ZERO_3 prefetch: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2"},
    {"Zero2ZeroBubble", kUntied, 2, 2, 3, "sharding: ZERO_2 schedule: ZERO_BUBBLE_H1"},
    {"Zero3ZeroBubble", kTied, 2, 2, 3, "sharding: ZERO_3 backward_prefetch: BACKWARD_POST schedule: ZERO_BUBBLE_H1"},
    {"Recomputed", kTied, 2, 1, 4, "", "activation_checkpointing { every: 2 }"},
    {"RecomputedZeroBubble", kTied, 2, 2, 3, "sharding: ZERO_3 schedule: ZERO_BUBBLE_H1", "activation_checkpointing {}"},
    {"Validated", kTied, 2, 2, 3, "", "validation { every_steps: 4 samples: 7 batch: 2 }"},
    {"ValidatedInterleaved", kUntied, 2, 1, 4, "schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2",
     "validation { every_steps: 5 samples: 5 batch: 2 patience: 3 }"},
    {"Clipped", kTied, 2, 2, 3, "", "clip_norm: 0.5"},
    {"ClippedZero3", kTied, 2, 2, 3, "sharding: ZERO_3", "clip_norm: 0.5"},
};

// Without a pipeline, the same micro-batches: of one process, or of data-parallel ones, whose samples and dropout masks are these.
const report::RankRecord& WithoutPipeline(const Case& c) {
  static std::map<std::string, report::RankRecord> known;
  Case alone = c;
  alone.pp = 1, alone.parallel = "";
  const std::string text = Text(alone);
  auto [it, is_new] = known.try_emplace(text);
  if (is_new) it->second = testing::RunText(text + testing::kInMemory)[0];
  return it->second;
}

class Pipeline : public ::testing::TestWithParam<Case> {};

TEST_P(Pipeline, KeepsThePromises) {
  const std::string text = Text(GetParam());
  const auto in_memory = testing::RunText(text + testing::kInMemory);
  ASSERT_FALSE(in_memory.empty());
  const std::vector<double> losses = testing::Losses(in_memory[0]), alone = testing::Losses(WithoutPipeline(GetParam()));
  ASSERT_EQ(losses.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(alone.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], alone[i], 1e-5 * alone[i]) << "step " << i;
  EXPECT_LT(losses.back(), losses.front());
  ASSERT_EQ(in_memory[0].validations_size(), WithoutPipeline(GetParam()).validations_size());
  for (int v = 0; v < in_memory[0].validations_size(); ++v) {
    const double expected = WithoutPipeline(GetParam()).validations(v).loss();
    for (const report::RankRecord& rank : in_memory) EXPECT_NEAR(rank.validations(v).loss(), expected, 1e-5 * expected);
  }

  testing::ExpectPromised(text, in_memory);
}

// Without overlap the host launches nothing while a pass computes, so that a GPU waits for the first launch of each; else it has run
// ahead. 4 micro-batches have 8 passes.
TEST(WithoutOverlap, EveryPassBeginsOnAnIdleGpu) {
  const auto seconds = [](std::string_view overlap) {
    const auto records = testing::RunText(StrCat("model { gpt { layers: 2 hidden: 1024 heads: 8 sequence: 512 } }\n"
                                                 "train { steps: 3 warmup_steps: 1 micro_batch: 8 global_batch: 32 }\nparallel { overlap: ", overlap,
                                                 " }\nfabric { simulated { cluster: \"star-a100\" } }\n"));
    return records.empty() ? 0 : records[0].steps(2).seconds();
  };
  constexpr double kLaunch = 4e-6;  // of star-a100
  EXPECT_GT(seconds("false"), seconds("true") + 7.5 * kLaunch);
}

INSTANTIATE_TEST_SUITE_P(Cases, Pipeline, ::testing::ValuesIn(kCases), [](const auto& info) { return std::string(info.param.label); });

}  // namespace
}  // namespace twofold
