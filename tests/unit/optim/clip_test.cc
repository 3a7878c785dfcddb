#include "core/optim/clip.h"

#include <cmath>
#include <limits>

#include "core/optim/optimizer.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/testing.h"

namespace twofold::optim {
namespace clip_test {

using twofold::test::Cpu;
using twofold::test::Random;
using twofold::test::Values;

std::vector<Tensor> ThreeGradients(Cpu& cpu) {
  std::vector<Tensor> gradients;
  for (uint64_t i = 0; i < 3; ++i) gradients.push_back(Random(cpu, Shape{static_cast<int64_t>(5 + 3 * i)}, i));
  return gradients;
}

double SumOfSquares(const std::vector<Tensor>& gradients) {
  double sum = 0;
  for (const Tensor& gradient : gradients) {
    for (double g : Values(gradient)) sum += g * g;
  }
  return sum;
}

// What a step of plain descent with rate 1 takes from parameters of zero: the gradients as the optimizer reads them.
std::vector<std::vector<double>> AsRead(Cpu& cpu, const std::vector<Tensor>& gradients, const Tensor& factor) {
  std::vector<Slice> slices;
  for (const Tensor& g : gradients) {
    slices.push_back({"s", cpu.New(g.shape(), DType::kF64), g});
    cpu.ctx.Launch(ops::Fill{.out = slices.back().data, .value = 0});
  }
  const auto optimizer = MakeSgd({});
  optimizer->Attach(cpu.ctx, slices);
  optimizer->Step(cpu.ctx, -1, factor);
  std::vector<std::vector<double>> read;
  for (const Slice& s : slices) read.push_back(Values(s.data));
  return read;
}

TEST(ClipTest, AboveTheLimitAllAreScaledAndStayAsTheyAre) {
  Cpu cpu;
  const std::vector<Tensor> gradients = ThreeGradients(cpu);
  const double squares = SumOfSquares(gradients), max_norm = 0.5 * std::sqrt(squares);
  std::vector<std::vector<double>> before;
  for (const Tensor& g : gradients) before.push_back(Values(g));
  const Tensor total = SquaredNorm(cpu.ctx, gradients);
  EXPECT_NEAR(total.data<double>()[0], squares, 1e-12 * squares);
  const auto read = AsRead(cpu, gradients, ClipFactor(cpu.ctx, total, max_norm));
  const double factor = max_norm / (std::sqrt(squares) + 1e-6);
  for (size_t s = 0; s < gradients.size(); ++s) {
    EXPECT_EQ(Values(gradients[s]), before[s]);
    for (size_t i = 0; i < before[s].size(); ++i) EXPECT_NEAR(read[s][i], factor * before[s][i], 1e-13);
  }
}

TEST(ClipTest, BelowTheLimitNothingChanges) {
  Cpu cpu;
  const std::vector<Tensor> gradients = ThreeGradients(cpu);
  const auto read = AsRead(cpu, gradients, ClipFactor(cpu.ctx, SquaredNorm(cpu.ctx, gradients), 1e3));
  for (size_t s = 0; s < 3; ++s) EXPECT_EQ(read[s], Values(gradients[s]));
}

// In one operation each; what it adds up is what operations on its blocks do, one after the other.
TEST(ClipTest, ALongGradientIsOneOperationThatAddsBlocksUpInOrder) {
  Cpu cpu;
  const int64_t n = 2 * ops::kNormBlock + 777;
  const Tensor gradient = cpu.New({n}, DType::kF32), expected = cpu.New({1}, DType::kF32);
  for (int64_t i = 0; i < n; ++i) gradient.data<float>()[i] = 1e-3f * static_cast<float>(i * i % 8191);
  for (int64_t first = 0; first < n; first += ops::kNormBlock) {
    cpu.ctx.Launch(ops::SquaredNorm{
        .in = gradient.Slice(first, std::min(ops::kNormBlock, n - first)), .out = expected, .accumulate = first > 0});
  }
  int operations = 0;
  cpu.device.SetObserver([&](const ops::Op&, double, double) { ++operations; });
  const Tensor squares = SquaredNorm(cpu.ctx, {&gradient, 1});
  cpu.device.SetObserver(nullptr);
  EXPECT_EQ(operations, 1);
  EXPECT_EQ(squares.data<float>()[0], expected.data<float>()[0]);
}

// Gradients of a loss that was multiplied by 1024 are clipped as those of the loss itself; a power of two loses no bit.
TEST(ClipTest, OfAScaledLossIsThatOfTheLoss) {
  Cpu cpu;
  const std::vector<Tensor> gradients = ThreeGradients(cpu), scaled = ThreeGradients(cpu);
  for (const Tensor& g : scaled) cpu.ctx.Launch(ops::Scale{.x = g, .factor = 1024});
  for (const double max_norm : {0.75, 1e3, std::numeric_limits<double>::infinity()}) {
    const Tensor factor = ClipFactor(cpu.ctx, SquaredNorm(cpu.ctx, gradients), max_norm);
    const Tensor unscaling = ClipFactor(cpu.ctx, SquaredNorm(cpu.ctx, scaled), max_norm, 1.0 / 1024);
    EXPECT_EQ(AsRead(cpu, gradients, factor), AsRead(cpu, scaled, unscaling)) << max_norm;
  }
}

// Two holders of parts, each told the other's sum, scale as one holder of the whole.
TEST(ClipTest, PartsWithAReductionScaleAsTheWhole) {
  Cpu cpu;
  const std::vector<Tensor> whole = ThreeGradients(cpu), left{whole[0]}, right{whole[1], whole[2]};
  const double of_left = SumOfSquares(left), of_right = SumOfSquares(right);
  const auto factor = [&](const std::vector<Tensor>& part, double of_others) {
    const Tensor squares = SquaredNorm(cpu.ctx, part, [&](Tensor& t) { t.data<double>()[0] += of_others; });
    return ClipFactor(cpu.ctx, squares, 0.75).data<double>()[0];
  };
  EXPECT_LT(factor(whole, 0), 0.5);
  EXPECT_NEAR(factor(left, of_right), factor(whole, 0), 1e-14);
  EXPECT_NEAR(factor(right, of_left), factor(whole, 0), 1e-14);
}

TEST(ClipTest, APartWithoutElementsStillTakesPart) {
  Cpu cpu;
  const Tensor none = cpu.New(Shape{0}, DType::kF64);
  int reductions = 0;
  SquaredNorm(cpu.ctx, {&none, 1}, [&](Tensor& t) {
    EXPECT_EQ(t.data<double>()[0], 0);
    ++reductions;
  });
  EXPECT_EQ(reductions, 1);
}

TEST(ClipTest, WhatIsNotFiniteShows) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Cpu cpu;
    const std::vector<Tensor> gradients = ThreeGradients(cpu);
    gradients[1].data<double>()[2] = bad;
    EXPECT_FALSE(std::isfinite(SquaredNorm(cpu.ctx, gradients).data<double>()[0]));
  }
}

}  // namespace clip_test
}  // namespace twofold::optim
