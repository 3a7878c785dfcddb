#include "kernels/cpu/vector_math.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace twofold::cpu {
namespace vector_math_test {

TEST(Exp, IsWithinTwoUlps) {
  double worst = 0;
  for (double x = -87; x < 88.7; x += 0.00071) {
    const float f = static_cast<float>(x), want = static_cast<float>(std::exp(static_cast<double>(f)));
    const double ulp = std::nextafter(want, std::numeric_limits<float>::infinity()) - want;
    worst = std::max(worst, std::abs(static_cast<double>(Exp(f)) - std::exp(static_cast<double>(f))) / ulp);
  }
  EXPECT_LT(worst, 2);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(Exp, AtTheEnds) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Exp(0.f), 1);
  EXPECT_EQ(Exp(-inf), 0);
  EXPECT_EQ(Exp(-200.f), 0);
  EXPECT_EQ(Exp(inf), inf);
  EXPECT_EQ(Exp(89.f), inf);
  EXPECT_TRUE(std::isnan(Exp(std::nanf(""))));
  EXPECT_NEAR(Exp(-100.f) / std::exp(-100.), 1, 0.02);  // a subnormal number has few digits
}

TEST(Logistic, IsWithinFourUlpsAndNeverOutOfItsRange) {
  double worst = 0;
  for (double x = -86; x < 86; x += 0.00071) {
    const float f = static_cast<float>(x);
    const double exact = 1 / (1 + std::exp(-static_cast<double>(f)));
    const float want = static_cast<float>(exact);
    const double ulp = std::nextafter(want, 2.f) - want;
    worst = std::max(worst, std::abs(static_cast<double>(Logistic(f)) - exact) / ulp);
  }
  EXPECT_LT(worst, 4);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Logistic(0.f), 0.5f);
  EXPECT_EQ(Logistic(inf), 1);
  EXPECT_EQ(Logistic(200.f), 1);
  EXPECT_EQ(Logistic(-inf), 0);
  EXPECT_EQ(Logistic(-90.f), 0);
  EXPECT_TRUE(std::isnan(Logistic(std::nanf(""))));
}

TEST(Lanes, SumAndMaximumOfAnyLength) {
  for (int64_t n = 0; n < 300; ++n) {
    std::vector<float> x;
    for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>((i * 37) % 101) - 50);
    double sum = 0;
    float top = -std::numeric_limits<float>::infinity();
    for (float v : x) sum += v, top = std::max(top, v);
    EXPECT_EQ(SumOf<float>(n, [&](int64_t i) { return x[static_cast<size_t>(i)]; }), sum);
    EXPECT_EQ(MaxOf<float>(n, x.data()), top);
  }
}

}  // namespace vector_math_test
}  // namespace twofold::cpu
