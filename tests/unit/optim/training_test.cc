// A small model, a loss and an optimizer together: training learns, in every float type.
#include <cmath>

#include "core/nn/gpt.h"
#include "core/nn/loss.h"
#include "core/optim/clip.h"
#include "core/optim/optimizer.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/testing.h"

namespace twofold::optim {
namespace training_test {

using twofold::test::Cpu;
using twofold::test::Materialize;

// Losses of 40 steps on one batch of a repeating sequence of 7 tokens.
std::vector<double> Train(DType dtype, const LowPrecisionUpdate& low_precision = {}, double lr = 0.02,
                          int64_t steps = 40) {
  Cpu cpu;
  nn::GptModel model({.layers = 2, .hidden = 16, .heads = 2, .vocab = 16, .sequence = 12, .dtype = dtype});
  model.Finalize();
  Materialize(cpu.ctx, model);
  const Tensor ids = cpu.New(Shape{2, 12}, DType::kU8), targets = cpu.New(Shape{2, 12}, DType::kU8);
  for (int i = 0; i < 24; ++i) {
    ids.data<uint8_t>()[i] = static_cast<uint8_t>(i % 7);
    targets.data<uint8_t>()[i] = static_cast<uint8_t>((i + 1) % 7);
  }
  std::vector<Slice> slices;
  std::vector<Tensor> gradients;
  for (nn::Parameter* p : model.Parameters()) {
    slices.push_back(WholeSlice(*p));
    gradients.push_back(p->gradient());
  }
  const auto optimizer = MakeAdam({.weight_decay = 0.01}, {}, low_precision);
  optimizer->Attach(cpu.ctx, slices);

  std::vector<double> losses;
  nn::Saved saved, kept;
  for (cpu.ctx.step = 0; cpu.ctx.step < steps; ++cpu.ctx.step) {
    for (nn::Parameter* p : model.Parameters()) p->ZeroGradient();
    const Tensor loss = nn::SoftmaxCrossEntropy::Forward(cpu.ctx, model.Forward(cpu.ctx, ids, saved), targets, kept);
    losses.push_back(cpu.device.Item(loss, {0, "loss"}));
    model.Backward(cpu.ctx, nn::SoftmaxCrossEntropy::Backward(cpu.ctx, kept), saved);
    optimizer->Step(cpu.ctx, lr, ClipFactor(cpu.ctx, SquaredNorm(cpu.ctx, gradients), 1.0));
  }
  return losses;
}

TEST(TrainingTest, LearnsInEveryFloatType) {
  const std::vector<double> reference = Train(DType::kF64);
  EXPECT_NEAR(reference.front(), std::log(16.0), 0.1) << "the first guess is uniform";
  EXPECT_LT(reference.back(), 0.3);
  struct Case {
    DType dtype;
    double first, last;
  };
  for (const Case& c : {Case{DType::kF32, 1e-5, 1e-2}, Case{DType::kBF16, 2e-2, 0.2}, Case{DType::kF16, 2e-3, 0.1}}) {
    const std::vector<double> losses = Train(c.dtype);
    EXPECT_NEAR(losses.front(), reference.front(), c.first) << DTypeName(c.dtype);
    EXPECT_NEAR(losses.back(), reference.back(), c.last) << DTypeName(c.dtype);
  }
}

TEST(TrainingTest, TheSameSeedGivesTheSameLosses) { EXPECT_EQ(Train(DType::kF32), Train(DType::kF32)); }

// Without masters and at a small rate most updates are below half of bf16's spacing: to the nearest, weights do not
// move any more.
TEST(TrainingTest, StochasticRoundingStandsInForMasters) {
  const auto last = [](LowPrecisionUpdate::Kind kind) {
    return Train(DType::kBF16, {.kind = kind, .seed = 1}, 2e-4, 400).back();
  };
  const double master = last(LowPrecisionUpdate::kMaster), stochastic = last(LowPrecisionUpdate::kStochastic),
               nearest = last(LowPrecisionUpdate::kNearest);
  EXPECT_LT(stochastic, master + 0.1);
  EXPECT_GT(nearest, stochastic + 0.2);
}

}  // namespace training_test
}  // namespace twofold::optim
