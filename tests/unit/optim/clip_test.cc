#include "core/optim/clip.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/unit/nn/testing.h"

namespace twofold::optim {
namespace {

using twofold::testing::Cpu;
using twofold::testing::Random;
using twofold::testing::Values;

std::vector<Slice> ThreeSlices(Cpu& cpu) {
  std::vector<Slice> slices;
  for (uint64_t i = 0; i < 3; ++i) {
    const Shape shape{static_cast<int64_t>(5 + 3 * i)};
    slices.push_back({"s", cpu.New(shape, DType::kF64), Random(cpu, shape, i)});
  }
  return slices;
}

double SumOfSquares(const std::vector<Slice>& slices) {
  double sum = 0;
  for (const Slice& s : slices) {
    for (double g : Values(s.gradient)) sum += g * g;
  }
  return sum;
}

TEST(ClipTest, AboveTheLimitAllAreScaled) {
  Cpu cpu;
  const std::vector<Slice> slices = ThreeSlices(cpu);
  const double squares = SumOfSquares(slices), max_norm = 0.5 * std::sqrt(squares);
  std::vector<std::vector<double>> before;
  for (const Slice& s : slices) before.push_back(Values(s.gradient));
  const Tensor total = ClipByGlobalNorm(cpu.ctx, slices, max_norm);
  EXPECT_NEAR(total.data<double>()[0], squares, 1e-12 * squares);
  const double factor = max_norm / (std::sqrt(squares) + 1e-6);
  for (size_t s = 0; s < slices.size(); ++s) {
    const std::vector<double> after = Values(slices[s].gradient);
    for (size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(after[i], factor * before[s][i], 1e-13);
  }
}

TEST(ClipTest, BelowTheLimitNothingChanges) {
  Cpu cpu;
  const std::vector<Slice> slices = ThreeSlices(cpu);
  const std::vector<double> before = Values(slices[1].gradient);
  ClipByGlobalNorm(cpu.ctx, slices, 1e3);
  EXPECT_EQ(Values(slices[1].gradient), before);
}

// Two holders of parts, each told the other's sum, scale as one holder of the whole.
TEST(ClipTest, PartsWithAReductionScaleAsTheWhole) {
  Cpu cpu;
  std::vector<Slice> whole = ThreeSlices(cpu), parts = ThreeSlices(cpu);
  const std::vector<Slice> left{parts[0]}, right{parts[1], parts[2]};
  const double of_left = SumOfSquares(left), of_right = SumOfSquares(right);
  ClipByGlobalNorm(cpu.ctx, whole, 0.75);
  ClipByGlobalNorm(cpu.ctx, left, 0.75, [&](Tensor& t) { t.data<double>()[0] += of_right; });
  ClipByGlobalNorm(cpu.ctx, right, 0.75, [&](Tensor& t) { t.data<double>()[0] += of_left; });
  for (size_t s = 0; s < 3; ++s) {
    const std::vector<double> a = Values(whole[s].gradient), b = Values(parts[s].gradient);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-14);
  }
}

TEST(ClipTest, APartWithoutElementsStillTakesPart) {
  Cpu cpu;
  const std::vector<Slice> none{{"empty", cpu.New(Shape{0}, DType::kF64), cpu.New(Shape{0}, DType::kF64)}};
  int reductions = 0;
  ClipByGlobalNorm(cpu.ctx, none, 1, [&](Tensor& t) {
    EXPECT_EQ(t.data<double>()[0], 0);
    ++reductions;
  });
  EXPECT_EQ(reductions, 1);
}

}  // namespace
}  // namespace twofold::optim
