// Promise 3: with real data, the simulated fabric gives the losses of the in-memory fabric, bit for bit.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/integration/run_spec.h"

namespace twofold {
namespace {

using Case = std::tuple<const char*, int, const char*>;

class NumericsToTheBit : public ::testing::TestWithParam<Case> {};

TEST_P(NumericsToTheBit, SimulatedEqualsInMemory) {
  const auto [model, ranks, precision] = GetParam();
  const std::string text = StrCat(model, "train { steps: 20 micro_batch: 2 global_batch: 24 clip_norm: 1 ",
                                  precision, " }\nparallel { dp: ", ranks, " bucket_mib: 0.01 }\n");
  const auto simulated = testing::RunText(text + testing::Simulated("REAL"));
  const auto in_memory = testing::RunText(text + testing::kInMemory);
  ASSERT_EQ(simulated.size(), in_memory.size());
  for (size_t r = 0; r < in_memory.size(); ++r) {
    EXPECT_EQ(testing::Losses(simulated[r]), testing::Losses(in_memory[r])) << "rank " << r;
    EXPECT_EQ(in_memory[r].steps_size(), 20);
    EXPECT_NE(in_memory[r].steps(0).loss(), in_memory[r].steps(19).loss());
  }
}

constexpr char kF32[] = "precision { parameter: F32 }", kBf16[] = "precision { parameter: BF16 }";

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  const auto [model, ranks, precision] = info.param;
  return StrCat(model == testing::kTinyGpt ? "Gpt" : "Mlp", ranks, "Ranks",
                precision == kF32 ? "F32" : "Bf16");
}

INSTANTIATE_TEST_SUITE_P(Specs, NumericsToTheBit,
                         ::testing::Combine(::testing::Values(testing::kTinyGpt, testing::kTinyMlp),
                                            ::testing::Values(1, 2, 3, 4), ::testing::Values(kF32, kBf16)),
                         CaseName);

}  // namespace
}  // namespace twofold
