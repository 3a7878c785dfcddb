// Residual networks: parameter counts, gradients, batch normalisation in training, and evaluation.
#include "core/nn/cnn.h"

#include <cmath>

#include "core/nn/convolution.h"
#include "core/nn/flops.h"
#include "core/nn/pool.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/gradient_check.h"
#include "tests/unit/nn/symbolic_device.h"
#include "tests/unit/nn/testing.h"

namespace twofold::nn {
namespace cnn_test {

using twofold::test::Cpu;
using twofold::test::Materialize;
using twofold::test::Random;
using twofold::test::Values;

constexpr DType kF64 = DType::kF64;

// ---- Gradients against finite differences ----
TEST(CnnGradientCheck, Convolution) {
  struct Case {
    int64_t in, out, kernel, stride, padding;
    bool bias;
  };
  for (const Case& c : {Case{1, 1, 1, 1, 0, true}, Case{2, 3, 3, 1, 1, false}, Case{3, 9, 3, 2, 1, true},
                        Case{2, 2, 2, 3, 0, false}, Case{2, 3, 1, 2, 0, false}, Case{1, 2, 5, 2, 2, true}}) {
    Cpu cpu;
    Convolution layer({.in = c.in,
                       .out = c.out,
                       .kernel = c.kernel,
                       .stride = c.stride,
                       .padding = c.padding,
                       .bias = c.bias,
                       .dtype = kF64});
    CheckModule(cpu, layer, Random(cpu, Shape{2, 5, 6, c.in}, 1));
  }
}

TEST(CnnGradientCheck, BatchNorm) {
  for (const bool relu : {false, true}) {
    for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 2, 5}}) {
      Cpu cpu;
      BatchNorm layer({.channels = shape[-1], .relu = relu, .dtype = kF64});
      CheckModule(cpu, layer, Random(cpu, shape, 2));
    }
  }
}

TEST(CnnGradientCheck, Pools) {
  Cpu cpu;
  MaxPool largest(3, 2, 1);
  CheckModule(cpu, largest, Random(cpu, Shape{2, 5, 6, 2}, 3));
  GlobalAveragePool mean;
  CheckModule(cpu, mean, Random(cpu, Shape{2, 3, 4, 5}, 4));
}

TEST(CnnGradientCheck, BasicBlock) {
  struct Case {
    int64_t in, out, stride;
  };
  for (const Case& c : {Case{3, 3, 1}, Case{2, 4, 2}, Case{2, 3, 1}}) {
    Cpu cpu;
    BasicBlock block({.in = c.in, .out = c.out, .stride = c.stride, .dtype = kF64});
    CheckModule(cpu, block, Random(cpu, Shape{2, 4, 5, c.in}, 5));
  }
}

TEST(CnnGradientCheck, Model) {
  for (const auto stem : {CnnConfig::kSmall, CnnConfig::kImageNet}) {
    Cpu cpu;
    CnnModel model({.channels = 2,
                    .height = 9,
                    .width = 8,
                    .widths = {3, 4},
                    .blocks = {1, 2},
                    .classes = 3,
                    .stem = stem,
                    .dtype = kF64});
    CheckModule(cpu, model, Random(cpu, Shape{2, 9, 8, 2}, 6));
  }
}

// ---- The network ----
int64_t Count(const CnnConfig& config) {
  CnnModel model(config);
  return model.ParameterCount();
}

// torchvision's resnet18 and resnet34, and resnet18 as it is commonly changed for CIFAR-10.
TEST(CnnModel, ParameterCountsArePublishedOnes) {
  const CnnConfig imagenet{.height = 224,
                           .width = 224,
                           .widths = {64, 128, 256, 512},
                           .blocks = {2, 2, 2, 2},
                           .classes = 1000,
                           .stem = CnnConfig::kImageNet};
  EXPECT_EQ(Count(imagenet), 11689512);
  CnnConfig deeper = imagenet;
  deeper.blocks = {3, 4, 6, 3};
  EXPECT_EQ(Count(deeper), 21797672);
  CnnConfig small = imagenet;
  small.height = small.width = 32, small.classes = 10, small.stem = CnnConfig::kSmall;
  EXPECT_EQ(Count(small), 11173962);
  EXPECT_EQ(Count({.widths = {16, 32, 64}, .blocks = {1, 1, 2}}), 152026);  // the preset cnn-small
}

// 1.814 billion multiply-adds an image, as torchvision counts them.
TEST(CnnModel, FlopsAreThoseOfItsProducts) {
  const CnnConfig config{.height = 224,
                         .width = 224,
                         .widths = {64, 128, 256, 512},
                         .blocks = {2, 2, 2, 2},
                         .classes = 1000,
                         .stem = CnnConfig::kImageNet};
  EXPECT_NEAR(ForwardFlopsByBlock(config).Sum(), 2 * 1.814e9, 2 * 0.001e9);
  twofold::test::SymbolicDevice device;
  Context ctx{.device = device, .stream = device.compute()};
  CnnModel model(config);
  model.Finalize();
  Materialize(ctx, model);
  device.Forget();
  Saved saved;
  model.Forward(ctx, ctx.Activation(Shape{2, 224, 224, 3}, DType::kF32), saved);
  double products = 0;
  for (const auto& launched : device.launched()) {
    if (launched.key.name.starts_with("conv") || launched.key.name.starts_with("matmul"))
      products += launched.cost.flops.value();
  }
  EXPECT_EQ(products, 2 * ForwardFlopsByBlock(config).Sum());
}

// ---- Batch normalisation ----
TEST(BatchNorm, RunningStatisticsMoveInTrainingAndNormaliseOutsideIt) {
  Cpu cpu;
  BatchNorm layer({.channels = 1, .momentum = 0.1, .eps = 0, .dtype = kF64});
  layer.Finalize("norm");
  Materialize(cpu.ctx, layer);
  Tensor x = cpu.New(Shape{4, 1}, kF64);
  const double values[] = {1, 2, 3, 6};  // mean 3, squares 14: variance 3.5, unbiased 14 / 3
  std::copy_n(values, 4, x.data<double>());
  Saved saved;
  const std::vector<double> y = Values(layer.Forward(cpu.ctx, x, saved));
  EXPECT_NEAR(y[3], 3 / std::sqrt(3.5), 1e-15);
  const std::vector<Parameter*> buffers = layer.Buffers();
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0]->name(), "norm.running_mean");
  EXPECT_NEAR(buffers[0]->data().data<double>()[0], 0.3, 1e-15);
  EXPECT_EQ(buffers[1]->name(), "norm.running_variance");
  EXPECT_NEAR(buffers[1]->data().data<double>()[0], 0.9 + 0.1 * 14 / 3, 1e-15);

  cpu.ctx.training = false;
  Saved evaluation;
  const std::vector<double> z = Values(layer.Forward(cpu.ctx, x, evaluation));
  EXPECT_NEAR(z[0], (1 - 0.3) / std::sqrt(0.9 + 0.1 * 14 / 3), 1e-15);
  EXPECT_NEAR(buffers[0]->data().data<double>()[0], 0.3, 1e-15);
  EXPECT_NEAR(buffers[1]->data().data<double>()[0], 0.9 + 0.1 * 14 / 3, 1e-15);
}

// One row has no unbiased variance; it is its own mean.
TEST(BatchNorm, OfASingleRowIsFinite) {
  Cpu cpu;
  BatchNorm layer({.channels = 2, .dtype = kF64});
  layer.Finalize("norm");
  Materialize(cpu.ctx, layer);
  Saved saved;
  const std::vector<double> y = Values(layer.Forward(cpu.ctx, Random(cpu, Shape{1, 1, 1, 2}, 8), saved));
  EXPECT_EQ(y, (std::vector<double>{0, 0}));
  for (double variance : Values(layer.Buffers()[1]->data())) EXPECT_NEAR(variance, 0.9, 1e-15);
  for (double dx : Values(layer.Backward(cpu.ctx, Random(cpu, Shape{1, 1, 1, 2}, 9), saved))) EXPECT_EQ(dx, 0);
}

}  // namespace cnn_test
}  // namespace twofold::nn
