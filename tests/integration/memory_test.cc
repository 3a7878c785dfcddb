// Promise 2: what a simulated run without data predicts of memory is what the same run measures, to the byte.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "tests/integration/run_spec.h"

namespace twofold {
namespace {

using testing::TinyModel;
using Case = std::tuple<TinyModel, int, int, const char*>;  // model, ranks, accumulation, and what else `train` says: one of kTrain

class MemoryToTheByte : public ::testing::TestWithParam<Case> {};

TEST_P(MemoryToTheByte, PredictedEqualsMeasured) {
  const auto [model, ranks, accumulation, more] = GetParam();
  const std::string text =
      StrCat(model.model, "train { steps: 3 micro_batch: 2 global_batch: ", 2 * ranks * accumulation,
             " clip_norm: 1 ", more, " }\nparallel { dp: ", ranks, " bucket_mib: 0.01 }\n");
  const auto predicted = testing::RunText(text + testing::Simulated("SYMBOLIC"));
  const auto measured = testing::RunText(text + testing::kInMemory);
  ASSERT_EQ(predicted.size(), measured.size());
  for (size_t r = 0; r < measured.size(); ++r) {
    const report::Rank &p = predicted[r].memory(), &m = measured[r].memory();
    EXPECT_EQ(p.peak_bytes(), m.peak_bytes()) << "rank " << r;
    EXPECT_EQ(p.reserved_bytes(), m.reserved_bytes()) << "rank " << r;
    ASSERT_EQ(p.categories_size(), m.categories_size());
    for (int c = 0; c < m.categories_size(); ++c) {
      EXPECT_EQ(p.categories(c).peak_bytes(), m.categories(c).peak_bytes()) << m.categories(c).name();
      EXPECT_EQ(p.categories(c).bytes_at_peak(), m.categories(c).bytes_at_peak()) << m.categories(c).name();
    }
    EXPECT_GT(m.peak_bytes(), 0);
    EXPECT_GE(m.reserved_bytes(), m.peak_bytes());
  }
}

constexpr char kF32[] = "precision { parameter: F32 }", kBf16[] = "precision { parameter: BF16 }",
               kMixed[] = "precision { parameter: BF16 reduce: F32 }";

// The types that others add to these: copies on their way, narrow and wide; half precision, with its scale.
constexpr char kWire[] = "precision { parameter: BF16 gradient: F32 reduce: BF16 buffer: F64 }",
               kHalf[] = "precision { parameter: F16 }", kHalfMixed[] = "precision { parameter: F16 gradient: F32 reduce: F16 loss_scale { fixed: 128 } }";

// Recomputed activations, of blocks (evaluated in between) and of attention cores.
constexpr char kFull[] = "activation_checkpointing {}",
               kEverySecond[] = "precision { parameter: BF16 } activation_checkpointing { every: 2 } validation { every_steps: 2 samples: 5 }",
               kSelective[] = "precision { parameter: BF16 } activation_checkpointing { recompute: SELECTIVE }";

constexpr std::pair<const char*, const char*> kTrain[] = {
    {kF32, "F32"},   {kBf16, "Bf16"},           {kMixed, "Mixed"}, {kWire, "Wire"},
    {kHalf, "Half"}, {kHalfMixed, "HalfMixed"}, {kFull, "Full"},   {kEverySecond, "EverySecond"}, {kSelective, "Selective"}};

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  const auto [model, ranks, accumulation, more] = info.param;
  for (const auto& [text, name] : kTrain) {
    if (more == text) return StrCat(model.name, ranks, "Ranks", accumulation, "Parts", name);
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Models, MemoryToTheByte,
                         ::testing::Combine(::testing::ValuesIn(testing::kTinyModels), ::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(1, 4), ::testing::Values(kF32, kBf16, kMixed)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Cnns, MemoryToTheByte,
                         ::testing::Combine(::testing::ValuesIn(testing::kTinyCnns), ::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(1, 4), ::testing::Values(kF32, kBf16, kMixed)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Mixes, MemoryToTheByte,
                         ::testing::Combine(::testing::Values(testing::kTinyModels[0], testing::kTinyModels[2], testing::kTinyCnns[1]),
                                            ::testing::Values(1, 3), ::testing::Values(2), ::testing::Values(kWire, kHalf, kHalfMixed)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Variants, MemoryToTheByte,
                         ::testing::Combine(::testing::ValuesIn(testing::kTinyVariants), ::testing::Values(1, 2),
                                            ::testing::Values(2), ::testing::Values(kF32, kBf16)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Recomputed, MemoryToTheByte,
                         ::testing::Combine(::testing::Values(testing::kTinyModels[0], testing::kTinyModels[2], testing::kTinyCnns[0],
                                                              testing::kTinyCnns[1], testing::kTinyVariants[1]),
                                            ::testing::Values(1, 3), ::testing::Values(2), ::testing::Values(kFull, kEverySecond)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(RecomputedCores, MemoryToTheByte,
                         ::testing::Combine(::testing::Values(testing::kTinyVariants[0], testing::kTinyVariants[1],
                                                              testing::kTinyVariants[3]),
                                            ::testing::Values(1, 3), ::testing::Values(2), ::testing::Values(kSelective)),
                         CaseName);

}  // namespace
}  // namespace twofold
