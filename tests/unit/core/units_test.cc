#include "core/base/units.h"

#include <limits>
#include <type_traits>

#include "core/base/duration.h"
#include "gtest/gtest.h"

namespace twofold {
namespace units_test {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
static_assert(Addable<Bytes, Bytes> && !Addable<Bytes, Seconds> && !Addable<Bytes, int64_t>);
static_assert(!std::is_convertible_v<int64_t, Bytes> && !std::is_convertible_v<double, Seconds>);

TEST(Units, KeepTheirUnit) {
  EXPECT_EQ(KiB(1) + Bytes(1), Bytes(1025));
  EXPECT_EQ(MiB(1) - KiB(1), KiB(1023));
  EXPECT_EQ(2 * GiB(1), MiB(2048));
  EXPECT_LT(Microseconds(999), Seconds(1e-3));
  EXPECT_DOUBLE_EQ(Seconds(3) / Seconds(2), 1.5);
}

TEST(Units, QuotientsThatMeanSomething) {
  EXPECT_DOUBLE_EQ((Bytes(1000) / BytesPerSecond(500)).value(), 2);
  EXPECT_DOUBLE_EQ((Bytes(1000) / Seconds(2)).value(), 500);
  EXPECT_DOUBLE_EQ((Flops(1e12) / FlopsPerSecond(4e12)).value(), 0.25);
}

// A plain cast is undefined from 292 years on.
TEST(Units, AnySecondsAreADuration) {
  using std::chrono::milliseconds, std::chrono::seconds;
  constexpr double kInfinity = std::numeric_limits<double>::infinity(),
                   kNone = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(DurationOf(0.25), milliseconds(250));
  EXPECT_EQ(DurationOf(1e9), seconds(1'000'000'000));
  for (const double longer : {1e10, 1e300, kInfinity}) EXPECT_EQ(DurationOf(longer), seconds(1'000'000'000));
  for (const double none : {0.0, -0.25, -1e300, -kInfinity, kNone}) EXPECT_EQ(DurationOf(none), seconds(0));
  EXPECT_GT(std::chrono::system_clock::now() + DurationOf(kInfinity), std::chrono::system_clock::now());
}

}  // namespace units_test
}  // namespace twofold
