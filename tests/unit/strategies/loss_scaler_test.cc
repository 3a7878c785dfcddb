#include "strategies/loss_scaler.h"

#include <gtest/gtest.h>

#include <vector>

namespace twofold {
namespace loss_scaler_test {

LossScalerOptions Dynamic(double initial, double growth, double backoff, int64_t interval, double minimum) {
  return {.scale = initial,
          .dynamic = true,
          .backoff = backoff,
          .growth = growth,
          .growth_interval = interval,
          .minimum = minimum};
}

TEST(LossScaler, WithoutAScaleIsOne) {
  const LossScaler scaler{LossScalerOptions()};
  EXPECT_FALSE(scaler.dynamic());
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScaler, AFixedScaleStays) {
  LossScaler scaler({.scale = 128});
  EXPECT_FALSE(scaler.dynamic());
  EXPECT_EQ(scaler.scale(), 128);
  scaler.set_state({.scale = 4});
  EXPECT_EQ(scaler.scale(), 128);
}

TEST(LossScaler, GrowsAfterGoodStepsInARowAndFallsAtOnce) {
  LossScaler scaler(Dynamic(1024, 4, 0.5, 3, 1));
  const std::vector<bool> finite = {true, true, false, true, true, true, true, false, false, true};
  const std::vector<double> after = {1024, 1024, 512, 512, 512, 2048, 2048, 1024, 512, 512};
  for (size_t i = 0; i < finite.size(); ++i) {
    EXPECT_EQ(scaler.Update(finite[i]), finite[i]) << i;
    EXPECT_EQ(scaler.scale(), after[i]) << i;
  }
  EXPECT_EQ(scaler.state().skipped, 3);
  EXPECT_EQ(scaler.state().good_steps, 1);
}

TEST(LossScaler, StaysWithinItsBounds) {
  LossScaler scaler(Dynamic(8, 2, 0.1, 1, 2));
  for (int i = 0; i < 5; ++i) scaler.Update(false);
  EXPECT_EQ(scaler.scale(), 2);
  for (int i = 0; i < 3000; ++i) scaler.Update(true);
  EXPECT_LE(scaler.scale(), 1e30);
}

TEST(LossScaler, GoesOnFromWhatWasSaved) {
  LossScaler whole(Dynamic(1024, 2, 0.5, 4, 1)), first(Dynamic(1024, 2, 0.5, 4, 1)),
      second(Dynamic(1024, 2, 0.5, 4, 1));
  const std::vector<bool> finite = {false, true, true, true, true, true, false, true, true, true, true};
  for (size_t i = 0; i < finite.size(); ++i) {
    whole.Update(finite[i]);
    if (i == 4) second.set_state(LossScaler::State::Load(first.state().Save()));
    (i < 4 ? first : second).Update(finite[i]);
    EXPECT_EQ((i < 4 ? first : second).scale(), whole.scale()) << i;
  }
  EXPECT_EQ(second.state().Save(), whole.state().Save());
}

}  // namespace loss_scaler_test
}  // namespace twofold
