// Sizes that divide nothing: shards of padding alone, stages without experts, ranks that own none of their gradients.
// Each run ends, trains like one process and needs the bytes that are predicted.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/run_spec.h"

namespace twofold {
namespace odd_sizes_test {

using test::kInMemory;
using test::Losses;
using test::RunText;
using test::Simulated;

struct Odd {
  const char* name;
  const char* model;  // and how it is trained
  const char* parallel;
};

void PrintTo(const Odd& odd, std::ostream* out) { *out << odd.name; }

constexpr Odd kOdd[] = {
    // Of a stage's ranks, some hold padding of the vocabulary in what else would be no gradient of experts.
    {"StageWithoutExperts",
     "model { moe { llama { layers: 4 hidden: 8 heads: 4 kv_heads: 2 ffn: 16 sequence: 16 vocab: 257 tied_embeddings: "
     "true } "
     "experts: 4 top_k: 2 capacity_factor: 2 every: 2 } } train { steps: 3 global_batch: 8 clip_norm: 0.1 } ",
     "parallel { pp: 2 dp: 2 ep: 2 tp: 2 virtual_stages: 2 schedule: INTERLEAVED_ONE_F_ONE_B sharding: SHARD_GRAD_OP "
     "} "},
    {"StageWithoutExpertsUneven",
     "model { moe { llama { layers: 2 hidden: 8 heads: 2 kv_heads: 2 ffn: 16 sequence: 16 vocab: 257 } "
     "experts: 3 top_k: 1 capacity_factor: 3 every: 2 } } train { steps: 3 global_batch: 6 clip_norm: 1 } ",
     "parallel { pp: 2 dp: 3 ep: 3 sharding: ZERO_1 } "},
    // The last stage's root unit is a norm of 6 elements: the fourth of 4 shards has none of them.
    {"ShardOfPaddingAlone",
     "model { llama { layers: 2 hidden: 6 heads: 1 kv_heads: 1 ffn: 8 sequence: 8 vocab: 256 tied_embeddings: true } } "
     "train { steps: 3 global_batch: 4 } ",
     "parallel { pp: 2 dp: 4 sharding: ZERO_1 } "},
    // Some shards of the second rank along tp are all of positions, which the first one owns.
    {"RankThatOwnsNothing",
     "model { gpt { layers: 1 hidden: 8 heads: 2 sequence: 512 tied_embeddings: true } } "
     "train { steps: 3 global_batch: 4 clip_norm: 0.1 precision { parameter: F64 } } ",
     "parallel { dp: 4 tp: 2 sharding: ZERO_1 wrap { min_parameters: 1000000 } } "},
};

class OddSizes : public ::testing::TestWithParam<Odd> {};

TEST_P(OddSizes, TrainLikeOneProcessInThePredictedBytes) {
  const std::string model = GetParam().model, parallel = GetParam().parallel;
  const std::vector<report::RankRecord> one = RunText(model + kInMemory),
                                        measured = RunText(model + parallel + kInMemory);
  const std::vector<report::RankRecord> predicted = RunText(model + parallel + Simulated("SYMBOLIC"));
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(measured.size(), predicted.size());
  const std::vector<double> expected = Losses(one[0]), losses = Losses(measured[0]);
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t s = 0; s < losses.size(); ++s) EXPECT_NEAR(losses[s], expected[s], 1e-4 * expected[s]) << "step " << s;
  for (size_t r = 0; r < measured.size(); ++r) {
    EXPECT_EQ(measured[r].memory().peak_bytes(), predicted[r].memory().peak_bytes()) << "rank " << r;
    EXPECT_EQ(measured[r].memory().reserved_bytes(), predicted[r].memory().reserved_bytes()) << "rank " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, OddSizes, ::testing::ValuesIn(kOdd),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace odd_sizes_test
}  // namespace twofold
