#include "backends/simulated/steady_state.h"

#include <gtest/gtest.h>

namespace twofold {
namespace steady_state_unit_test {

using Situation = SteadyState::Situation;
constexpr int64_t kAlike = 100;

// A step takes two seconds, and rank 1 begins half a second later.
Situation At(int64_t step, int rank, double ahead = 0.25, uint64_t rest = 7) {
  return {.time = 2.0 * static_cast<double>(step) + 0.5 * rank, .relative = {ahead}, .rest = rest};
}

TEST(SteadyState, OneRankCountsTheStepThatBeginsLikeTheOneBefore) {
  SteadyState steady(1);
  EXPECT_EQ(steady.Begin(0, 1, kAlike, At(1, 0, 0.3)), 0);
  EXPECT_EQ(steady.Begin(0, 2, kAlike, At(2, 0)), 0) << "its stream was ahead by more";
  EXPECT_EQ(steady.Begin(0, 3, kAlike, At(3, 0)), kAlike);
  ASSERT_TRUE(steady.counted());
  EXPECT_EQ(steady.counted()->first, 3);
  EXPECT_EQ(steady.Begin(0, 103, kAlike, At(103, 0)), 0) << "only once";
}

TEST(SteadyState, SeveralRanksCountFromTheFirstStepThatNoneHasBegun) {
  SteadyState steady(2);
  EXPECT_EQ(steady.Begin(0, 1, kAlike, At(1, 0)), 0);
  EXPECT_EQ(steady.Begin(1, 1, kAlike, At(1, 1)), 0);
  EXPECT_EQ(steady.Begin(0, 2, kAlike - 1, At(2, 0)), 0);
  EXPECT_EQ(steady.Begin(0, 3, kAlike - 2, At(3, 0)), 0) << "rank 0 is ahead";
  EXPECT_EQ(steady.Begin(1, 2, kAlike - 1, At(2, 1)), 0) << "now both have begun step 2";
  EXPECT_EQ(steady.Begin(1, 3, kAlike - 2, At(3, 1)), 0);
  EXPECT_EQ(steady.Begin(1, 4, kAlike - 3, At(4, 1)), kAlike - 3);
  EXPECT_EQ(steady.Begin(0, 4, kAlike - 3, At(4, 0)), kAlike - 3) << "the same for all";
}

TEST(SteadyState, EveryDifferenceCounts) {
  const auto counts = [](const Situation& second_of_rank_1) {
    SteadyState steady(2);
    for (const int rank : {0, 1}) steady.Begin(rank, 1, kAlike, At(1, rank));
    steady.Begin(0, 2, kAlike, At(2, 0));
    steady.Begin(1, 2, kAlike, second_of_rank_1);
    return steady.counted().has_value();
  };
  EXPECT_TRUE(counts(At(2, 1)));
  EXPECT_TRUE(counts({.time = 4.5 + 1e-12, .relative = {0.25}, .rest = 7})) << "rounding";
  EXPECT_FALSE(counts({.time = 4.5 + 1e-8, .relative = {0.25}, .rest = 7})) << "later after rank 0";
  EXPECT_FALSE(counts(At(2, 1, 0.25 + 1e-8))) << "a stream";
  EXPECT_FALSE(counts(At(2, 1, 0.25, 8))) << "memory";
  EXPECT_FALSE(counts({.time = 4.5, .relative = {}, .rest = 7})) << "fewer streams";
}

TEST(SteadyState, CountsNoStepThatIsNotAlike) {
  SteadyState steady(2);
  for (int64_t step = 1; step <= 2; ++step) {
    for (const int rank : {0, 1}) EXPECT_EQ(steady.Begin(rank, step, 3 - step, At(step, rank)), 0);
  }
  EXPECT_FALSE(steady.counted()) << "step 3 is the first that could be counted, and it is not alike";
}

}  // namespace steady_state_unit_test
}  // namespace twofold
