// What memory is given for changes no number: masks that are stored, activations that are kept. (promises_test.cc holds
// both fabrics against each other.)
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/integration/run_spec.h"

namespace twofold {
namespace numerics_test {

// Shards of a few elements, and of none, on devices whose streams come to a collective long after the program has let
// go of its operands.
class TinyShards : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyShards, EqualInMemoryOnEveryCluster) {
  const std::string sharding = GetParam();
  for (const std::string_view hidden : {"32", "32, 32", "3"}) {
    for (int ranks = sharding == "HYBRID_SHARD" ? 2 : 1; ranks <= 9; ++ranks) {
      int group = 2;  // ranks that share a copy: as few as can
      while (ranks > 1 && ranks % group > 0) ++group;
      const std::string how = sharding == "HYBRID_SHARD" ? StrCat(sharding, " shard_group: ", group) : sharding;
      const std::string text = StrCat("model { mlp { inputs: 16 hidden: [", hidden, "] classes: 4 } }\n",
                                      "train { steps: 2 micro_batch: 1 global_batch: ", 2 * ranks,
                                      " }\nparallel { dp: ", ranks, " sharding: ", how, " }\n");
      const auto in_memory = test::RunText(text + test::kInMemory);
      for (const std::string_view cluster : {"dgx-h100", "dgx-1v", "star-a100"}) {
        if (cluster != "dgx-h100" && (hidden != "3" || ranks % 4 == 2)) continue;  // elsewhere fewer
        SCOPED_TRACE(StrCat(text, cluster));
        const int nodes = cluster == "star-a100" ? ranks : ranks > 8 ? 2 : 1;
        const auto simulated = test::RunText(
            StrCat(text, "fabric { simulated { cluster: \"", cluster, "\" nodes: ", nodes, " data: REAL } }\n"));
        ASSERT_EQ(simulated.size(), in_memory.size());
        for (size_t r = 0; r < in_memory.size(); ++r)
          ASSERT_EQ(test::Losses(simulated[r]), test::Losses(in_memory[r])) << "rank " << r;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Layouts, TinyShards,
                         ::testing::Values("NO_SHARD", "ZERO_1", "ZERO_2", "ZERO_3", "HYBRID_SHARD",
                                           "ZERO_3 offload: OFFLOAD_ALL"),
                         [](const auto& info) { return StrCat("Layout", info.index); });

// Where nothing is stored, less memory; the numbers are the same.
TEST(DropoutMasks, StoredGiveTheLossesOfRecomputed) {
  const std::string model = "model { gpt { layers: 2 hidden: 16 heads: 2 sequence: 8 dropout: 0.2 } dropout_masks: ";
  const std::string rest = StrCat("train { steps: 5 micro_batch: 2 }\nparallel { dp: 2 }\n", test::kInMemory);
  const auto stored = test::RunText(model + "STORED }\n" + rest),
             recomputed = test::RunText(model + "RECOMPUTED }\n" + rest);
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(test::Losses(stored[r]), test::Losses(recomputed[r]));
    EXPECT_GT(stored[r].memory().peak_bytes(), recomputed[r].memory().peak_bytes());
  }
}

// Recomputed, they are the same numbers on both fabrics as kept ones.
TEST(Recomputation, GivesTheLossesOfKeptActivations) {
  for (const test::TinyModel& model : {test::kTinyCnns[1], test::kTinyVariants[1]}) {
    const auto run = [&](const char* more, const std::string& fabric) {
      return test::RunText(
          StrCat(model.model, "train { steps: 6 micro_batch: 2 ", more, " }\nparallel { dp: 3 }\n", fabric));
    };
    const auto kept = run("", test::kInMemory), measured = run("activation_checkpointing {}", test::kInMemory),
               simulated = run("activation_checkpointing {}", test::Simulated("REAL"));
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(test::Losses(measured[r]), test::Losses(kept[r])) << model.name;
      EXPECT_EQ(test::Losses(simulated[r]), test::Losses(kept[r])) << model.name;
      EXPECT_LT(measured[r].memory().peak_bytes(), kept[r].memory().peak_bytes()) << model.name;
    }
  }
}

}  // namespace numerics_test
}  // namespace twofold
