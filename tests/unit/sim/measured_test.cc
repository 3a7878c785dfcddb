#include "sim/collectives/measured.h"

#include "gtest/gtest.h"

namespace twofold::sim {
namespace measured_test {

constexpr auto kAllReduce = Communication::kAllReduce;

MeasuredCollectives Machine() {
  MeasuredCollectives m;
  m.Add(kAllReduce, 2, {{64, 1e-6}, {1024, 2e-6}, {4096, 8e-6}});
  return m;
}

TEST(MeasuredCollectivesTest, IsExactWhereMeasuredAndInterpolatesInLogarithms) {
  const MeasuredCollectives m = Machine();
  EXPECT_NEAR(*m.Seconds({kAllReduce, 2, 1024}), 2e-6, 1e-18);
  EXPECT_NEAR(*m.Seconds({kAllReduce, 2, 2048}), 4e-6, 1e-15);
}

TEST(MeasuredCollectivesTest, BelowItCostsWhatTheLeastDoesAndAboveItGrowsWithTheBytes) {
  const MeasuredCollectives m = Machine();
  EXPECT_EQ(*m.Seconds({kAllReduce, 2, 0}), 1e-6);
  EXPECT_EQ(*m.Seconds({kAllReduce, 2, 8}), 1e-6);
  EXPECT_NEAR(*m.Seconds({kAllReduce, 2, 40960}), 8e-5, 1e-15);
}

TEST(MeasuredCollectivesTest, KnowsNothingOfOtherCollectivesAndNumbersOfRanks) {
  EXPECT_FALSE(Machine().Seconds({Communication::kAllGather, 2, 64}).has_value());
  EXPECT_FALSE(Machine().Seconds({kAllReduce, 3, 64}).has_value());
  EXPECT_TRUE(MeasuredCollectives().empty());
}

}  // namespace measured_test
}  // namespace twofold::sim
