// What memory is given for changes no number: masks that are stored, activations that are kept. (promises_test.cc holds both fabrics
// against each other.)
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/run_spec.h"

namespace twofold {
namespace numerics_test {

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
