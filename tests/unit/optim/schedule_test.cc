#include "core/optim/schedule.h"

#include <cmath>

#include "gtest/gtest.h"

namespace twofold::optim {
namespace schedule_test {

TEST(ScheduleTest, ConstantIsOneFromTheStart) {
  for (int64_t step : {0, 1, 1000}) EXPECT_EQ(Factor({}, step), 1);
}

TEST(ScheduleTest, WarmupRisesInALine) {
  for (const auto kind : {LrSchedule::kConstant, LrSchedule::kCosine, LrSchedule::kLinear}) {
    const LrSchedule s{.kind = kind, .warmup_steps = 4, .decay_steps = 14, .min_ratio = 0.1};
    EXPECT_DOUBLE_EQ(Factor(s, 0), 0.25);
    EXPECT_DOUBLE_EQ(Factor(s, 2), 0.75);
    EXPECT_DOUBLE_EQ(Factor(s, 3), 1);
    EXPECT_DOUBLE_EQ(Factor(s, 4), 1);
  }
}

TEST(ScheduleTest, CosineFallsToTheFloorAndStays) {
  const LrSchedule s{.kind = LrSchedule::kCosine, .warmup_steps = 2, .decay_steps = 12, .min_ratio = 0.2};
  EXPECT_DOUBLE_EQ(Factor(s, 7), 0.6);  // half way
  EXPECT_NEAR(Factor(s, 4), 0.2 + 0.8 * 0.5 * (1 + std::cos(0.2 * 3.141592653589793)), 1e-15);
  EXPECT_NEAR(Factor(s, 12), 0.2, 1e-15);
  EXPECT_NEAR(Factor(s, 500), 0.2, 1e-15);
  for (int64_t step = 2; step < 12; ++step) EXPECT_LT(Factor(s, step + 1), Factor(s, step));
}

TEST(ScheduleTest, LinearFallsToTheFloorAndStays) {
  const LrSchedule s{.kind = LrSchedule::kLinear, .decay_steps = 10};
  for (int64_t step = 0; step <= 10; ++step) EXPECT_NEAR(Factor(s, step), 1 - 0.1 * static_cast<double>(step), 1e-15);
  EXPECT_EQ(Factor(s, 11), 0);
}

TEST(ScheduleTest, NoRoomToDecayIsTheFloor) {
  EXPECT_EQ(Factor({.kind = LrSchedule::kLinear, .warmup_steps = 5, .decay_steps = 5, .min_ratio = 0.3}, 5), 0.3);
}

}  // namespace schedule_test
}  // namespace twofold::optim
