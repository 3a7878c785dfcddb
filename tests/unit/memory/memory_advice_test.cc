#include "experiments/program/memory_advice.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace memory_advice_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

spec::Spec Job() {
  spec::Spec spec;
  spec.mutable_parallel()->set_dp(4);
  spec.mutable_train()->set_micro_batch(6), spec.mutable_train()->set_global_batch(24);
  return spec;
}
bool Has(const std::vector<std::string>& sets, const char* part) {
  return absl::StrContains(absl::StrJoin(sets, " "), part);
}
// The time of a change is 1 s for each letter of it, so that short ones are the cheapest.
std::vector<double> ByLength(std::span<const std::vector<std::string>> changes) {
  std::vector<double> seconds;
  for (const auto& sets : changes) seconds.push_back(10 + static_cast<double>(absl::StrJoin(sets, "").size()));
  return seconds;
}

TEST(MemoryAdvice, TakesTheCheapestOfThoseThatFit) {
  const MemoryAdvice advice = AdviseOnMemory(
      Job(),
      [](const std::vector<std::string>& sets) -> absl::StatusOr<std::optional<int64_t>> {
        if (sets.size() > 1 && Has(sets, "tp")) return absl::InvalidArgumentError("no tp here");
        if (Has(sets, "ZERO_1")) return std::nullopt;
        return 7;
      },
      ByLength);
  EXPECT_EQ(advice.seconds, 10);
  ASSERT_EQ(advice.remedies.size(), 3U);
  EXPECT_THAT(advice.remedies[0].sets, ElementsAre("parallel.sharding=ZERO_2"));
  EXPECT_THAT(advice.remedies[1].sets, ElementsAre("parallel.sharding=ZERO_3"));
  EXPECT_THAT(advice.remedies[2].sets, ElementsAre("parallel.offload=OFFLOAD_ALL"));
  EXPECT_EQ(advice.remedies[0].reserved_bytes, 7);
}

TEST(MemoryAdvice, CombinesChangesIfOneIsNotEnough) {
  const MemoryAdvice advice = AdviseOnMemory(
      Job(),
      [](const std::vector<std::string>& sets) -> absl::StatusOr<std::optional<int64_t>> {
        const bool enough = Has(sets, "BF16") && Has(sets, "activation_checkpointing") && Has(sets, "ZERO_3");
        return enough ? std::optional<int64_t>(5) : std::nullopt;
      },
      ByLength);
  ASSERT_EQ(advice.remedies.size(), 1U);
  EXPECT_EQ(advice.remedies[0].sets.size(), 3U);
  EXPECT_GT(advice.tried, 60);
  EXPECT_THAT(MemoryAdviceText(advice), HasSubstr("'--set=train.activation_checkpointing={ every: 1 }'"));
}

TEST(MemoryAdvice, AddsNothingToWhatFitsAlone) {
  const MemoryAdvice advice = AdviseOnMemory(
      Job(),
      [](const std::vector<std::string>& sets) -> absl::StatusOr<std::optional<int64_t>> {
        if (Has(sets, "ZERO_3") || (Has(sets, "BF16") && Has(sets, "every"))) return 5;
        return std::nullopt;
      },
      ByLength);
  ASSERT_EQ(advice.remedies.size(), 2U);
  for (const MemoryRemedy& remedy : advice.remedies)
    EXPECT_EQ(remedy.sets.size(), Has(remedy.sets, "ZERO_3") ? 1U : 2U);
}

TEST(MemoryAdvice, AsksOnlyForWhatIsNotThere) {
  spec::Spec spec = Job();
  spec.mutable_train()->mutable_precision()->set_parameter(spec::BF16);
  spec.mutable_train()->mutable_activation_checkpointing()->set_every(1);
  spec.mutable_parallel()->set_sharding(spec::Parallel::ZERO_2);
  spec.mutable_parallel()->set_offload(spec::Parallel::OFFLOAD_OPTIMIZER);
  const MemoryAdvice advice = AdviseOnMemory(
      spec,
      [](const std::vector<std::string>& sets) -> absl::StatusOr<std::optional<int64_t>> {
        for (const char* there : {"BF16", "every", "ZERO_1", "ZERO_2", "offload"})
          EXPECT_FALSE(Has(sets, there)) << there;
        if (Has(sets, "micro_batch")) {
          EXPECT_TRUE(Has(sets, "train.micro_batch=3 train.global_batch=24"));
        }
        if (Has(sets, "tp=2")) {
          EXPECT_TRUE(Has(sets, "parallel.dp=2"));
        }
        return std::nullopt;
      },
      ByLength);
  EXPECT_THAT(advice.remedies, IsEmpty());
  EXPECT_THAT(MemoryAdviceText(advice), HasSubstr("None of"));
}

TEST(MemoryAdvice, SaysWhatIsNotKnown) {
  MemoryAdvice advice{.remedies = {{.sets = {"a=1"}, .reserved_bytes = 1 << 30}}};
  EXPECT_THAT(MemoryAdviceText(advice), HasSubstr("--set=a=1"));
  EXPECT_THAT(MemoryAdviceText(advice), HasSubstr("1.00 GiB"));
  EXPECT_THAT(MemoryAdviceText(advice), Not(HasSubstr("as it is")));
  advice.seconds = 2, advice.remedies[0].seconds = 3;
  EXPECT_THAT(MemoryAdviceText(advice), HasSubstr("+50.0 %"));
}

// Step times are predicted of some only, and the text says so.
TEST(MemoryAdvice, SaysOfHowManyItIsTheFastest) {
  MemoryAdvice advice{.fitting = 12, .remedies = {{.sets = {"a=1"}, .reserved_bytes = 1}}};
  EXPECT_THAT(MemoryAdviceText(advice), ::testing::Not(::testing::HasSubstr("the fastest of the first")));
  advice.fitting = 13;
  EXPECT_THAT(MemoryAdviceText(advice),
              ::testing::HasSubstr("the fastest of the first 12 of 13 changes that make it fit"));
}

}  // namespace memory_advice_test
}  // namespace twofold
