// Promise 3: with real data, the simulated fabric gives the losses of the in-memory fabric, bit for bit.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>

#include "tests/integration/run_spec.h"

namespace twofold {
namespace {

using testing::TinyModel;
using Case = std::tuple<TinyModel, int, const char*>;

class NumericsToTheBit : public ::testing::TestWithParam<Case> {};

TEST_P(NumericsToTheBit, SimulatedEqualsInMemory) {
  const auto [model, ranks, precision] = GetParam();
  const std::string text = StrCat(model.model, "train { steps: 20 micro_batch: 2 global_batch: 24 clip_norm: 1 ",
                                  "precision { parameter: ", precision, " } }\nparallel { dp: ", ranks,
                                  " bucket_mib: 0.01 }\n");
  const auto simulated = testing::RunText(text + testing::Simulated("REAL"));
  const auto in_memory = testing::RunText(text + testing::kInMemory);
  ASSERT_EQ(simulated.size(), in_memory.size());
  for (size_t r = 0; r < in_memory.size(); ++r) {
    EXPECT_EQ(testing::Losses(simulated[r]), testing::Losses(in_memory[r])) << "rank " << r;
    EXPECT_EQ(in_memory[r].steps_size(), 20);
    EXPECT_NE(in_memory[r].steps(0).loss(), in_memory[r].steps(19).loss());
  }
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  const auto [model, ranks, precision] = info.param;
  return StrCat(model.name, ranks, "Ranks", precision);
}

INSTANTIATE_TEST_SUITE_P(Models, NumericsToTheBit,
                         ::testing::Combine(::testing::ValuesIn(testing::kTinyModels), ::testing::Values(1, 2, 3, 4),
                                            ::testing::Values("F32", "BF16")),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Cnns, NumericsToTheBit,
                         ::testing::Combine(::testing::ValuesIn(testing::kTinyCnns), ::testing::Values(1, 2, 3, 4),
                                            ::testing::Values("F32", "BF16")),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Variants, NumericsToTheBit,
                         ::testing::Combine(::testing::ValuesIn(testing::kTinyVariants), ::testing::Values(3),
                                            ::testing::Values("F32", "BF16")),
                         CaseName);

// Shards of a few elements, and of none, on devices whose streams come to a collective long after the program has let go of its operands.
class TinyShards : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyShards, EqualInMemoryOnEveryCluster) {
  const std::string sharding = GetParam();
  for (const std::string_view hidden : {"32", "32, 32", "3"}) {
    for (int ranks = sharding == "HYBRID_SHARD" ? 2 : 1; ranks <= 9; ++ranks) {
      int group = 2;  // ranks that share a copy: as few as can
      while (ranks > 1 && ranks % group > 0) ++group;
      const std::string how = sharding == "HYBRID_SHARD" ? StrCat(sharding, " shard_group: ", group) : sharding;
      const std::string text = StrCat("model { mlp { inputs: 16 hidden: [", hidden, "] classes: 4 } }\n",
                                      "train { steps: 2 micro_batch: 1 global_batch: ", 2 * ranks, " }\nparallel { dp: ", ranks, " sharding: ", how, " }\n");
      const auto in_memory = testing::RunText(text + testing::kInMemory);
      for (const std::string_view cluster : {"dgx-h100", "dgx-1v", "star-a100"}) {
        if (cluster != "dgx-h100" && (hidden != "3" || ranks % 4 == 2)) continue;  // elsewhere fewer
        SCOPED_TRACE(StrCat(text, cluster));
        const int nodes = cluster == "star-a100" ? ranks : ranks > 8 ? 2 : 1;
        const auto simulated = testing::RunText(StrCat(text, "fabric { simulated { cluster: \"", cluster, "\" nodes: ", nodes, " data: REAL } }\n"));
        ASSERT_EQ(simulated.size(), in_memory.size());
        for (size_t r = 0; r < in_memory.size(); ++r) ASSERT_EQ(testing::Losses(simulated[r]), testing::Losses(in_memory[r])) << "rank " << r;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Layouts, TinyShards,
                         ::testing::Values("NO_SHARD", "ZERO_1", "ZERO_2", "ZERO_3", "HYBRID_SHARD", "ZERO_3 offload: OFFLOAD_ALL"),
                         [](const auto& info) { return StrCat("Layout", info.index); });

// Where nothing is stored, less memory; the numbers are the same.
TEST(DropoutMasks, StoredGiveTheLossesOfRecomputed) {
  const std::string model = "model { gpt { layers: 2 hidden: 16 heads: 2 sequence: 8 dropout: 0.2 } dropout_masks: ";
  const std::string rest = StrCat("train { steps: 5 micro_batch: 2 }\nparallel { dp: 2 }\n", testing::kInMemory);
  const auto stored = testing::RunText(model + "STORED }\n" + rest), recomputed = testing::RunText(model + "RECOMPUTED }\n" + rest);
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(testing::Losses(stored[r]), testing::Losses(recomputed[r]));
    EXPECT_GT(stored[r].memory().peak_bytes(), recomputed[r].memory().peak_bytes());
  }
}

// Recomputed, they are the same numbers on both fabrics as kept ones.
TEST(Recomputation, GivesTheLossesOfKeptActivations) {
  for (const testing::TinyModel& model : {testing::kTinyCnns[1], testing::kTinyVariants[1]}) {
    const auto run = [&](const char* more, const std::string& fabric) {
      return testing::RunText(StrCat(model.model, "train { steps: 6 micro_batch: 2 ", more, " }\nparallel { dp: 3 }\n", fabric));
    };
    const auto kept = run("", testing::kInMemory), measured = run("activation_checkpointing {}", testing::kInMemory),
               simulated = run("activation_checkpointing {}", testing::Simulated("REAL"));
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(testing::Losses(measured[r]), testing::Losses(kept[r])) << model.name;
      EXPECT_EQ(testing::Losses(simulated[r]), testing::Losses(kept[r])) << model.name;
      EXPECT_LT(measured[r].memory().peak_bytes(), kept[r].memory().peak_bytes()) << model.name;
    }
  }
}

}  // namespace
}  // namespace twofold
