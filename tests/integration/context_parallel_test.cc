// Context parallelism holds the promises with whatever else a spec asks for: it trains like one process a replica, a simulated run
// with data gives the same bits, and one without, like `twofold memory`, predicts every rank's memory to the byte.
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/replayed.h"

namespace twofold {
namespace context_parallel_test {

constexpr int kSamples = 8;  // of the global batch
constexpr int kSteps = 8;
constexpr char kGpt[] = "model { gpt { layers: 2 hidden: 16 heads: 2 sequence: 24 dropout: 0.1 } }\n";
constexpr char kStored[] = "model { gpt { layers: 2 hidden: 16 heads: 2 sequence: 24 dropout: 0.1 } dropout_masks: STORED }\n";
constexpr char kLlama[] = "model { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 sequence: 24 } }\n";

struct Case {
  const char* label;
  const char* model;
  int dp;
  const char* parallel;    // further fields, cp among them
  const char* train = "";  // likewise
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

std::string Text(const Case& c, std::string_view parallel) {
  return StrCat(c.model, "train { steps: ", kSteps, " micro_batch: 2 global_batch: ", kSamples, " optimizer { sgd { lr: 0.2 } } ", c.train,
                " }\nparallel { dp: ", c.dp, " ", parallel, " }\n");
}

const Case kCases[] = {
    {"Cp2", kGpt, 1, "cp: 2"},
    {"Cp3Llama", kLlama, 1, "cp: 3"},
    {"Cp4", kStored, 1, "cp: 4"},
    {"Cp4Llama", kLlama, 1, "cp: 4"},
    {"NoOverlap", kLlama, 1, "cp: 3 overlap: false"},
    {"Recomputed", kGpt, 1, "cp: 2", "activation_checkpointing {}"},
    {"Validated", kLlama, 2, "cp: 2", "validation { every_steps: 3 samples: 7 batch: 2 }"},
    {"Clipped", kGpt, 1, "cp: 2", "clip_norm: 0.5"},
    {"Dp", kGpt, 2, "cp: 2"},
    {"Zero1", kGpt, 2, "cp: 2 sharding: ZERO_1"},
    {"Zero2", kLlama, 2, "cp: 2 sharding: ZERO_2"},
    {"Zero3", kGpt, 2, "cp: 2 sharding: ZERO_3"},
    {"Tensor", kGpt, 1, "cp: 2 tp: 2"},
    {"SequenceParallel", kStored, 1, "cp: 2 tp: 2 sequence_parallel: true"},
    {"Pipeline", kLlama, 1, "cp: 2 pp: 2"},
    {"PipelineTensor", kLlama, 1, "cp: 2 pp: 2 tp: 2"},
};

class ContextParallel : public ::testing::TestWithParam<Case> {};

TEST_P(ContextParallel, KeepsThePromises) {
  const std::string text = Text(GetParam(), GetParam().parallel);
  const auto in_memory = testing::RunText(text + testing::kInMemory), alone = testing::RunText(Text(GetParam(), "") + testing::kInMemory);
  ASSERT_FALSE(in_memory.empty() || alone.empty());
  const std::vector<double> losses = testing::Losses(in_memory[0]), expected = testing::Losses(alone[0]);
  ASSERT_EQ(losses.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(expected.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << "step " << i;
  ASSERT_EQ(in_memory[0].validations_size(), alone[0].validations_size());
  for (int v = 0; v < in_memory[0].validations_size(); ++v) {
    const double loss = alone[0].validations(v).loss();
    for (const report::RankRecord& rank : in_memory) EXPECT_NEAR(rank.validations(v).loss(), loss, 1e-5 * loss);
  }

  const auto real = testing::RunText(text + testing::Simulated("REAL")), symbolic = testing::RunText(text + testing::Simulated("SYMBOLIC"));
  ASSERT_EQ(real.size(), in_memory.size());
  ASSERT_EQ(symbolic.size(), in_memory.size());
  for (size_t r = 0; r < in_memory.size(); ++r) {
    EXPECT_EQ(testing::Losses(real[r]), losses) << "rank " << r;
    testing::ExpectEqual(symbolic[r].memory(), in_memory[r].memory(), "SYMBOLIC");
    testing::ExpectEqual(real[r].memory(), in_memory[r].memory(), "REAL");
  }
  testing::ExpectReplayed(text + testing::kInMemory, in_memory);
}

INSTANTIATE_TEST_SUITE_P(Cases, ContextParallel, ::testing::ValuesIn(kCases), [](const auto& info) { return std::string(info.param.label); });

}  // namespace
}  // namespace twofold
