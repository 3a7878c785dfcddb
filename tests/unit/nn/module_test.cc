#include "core/nn/module.h"

#include "core/nn/composite.h"
#include "core/nn/dropout.h"
#include "core/nn/linear.h"
#include "core/nn/sequential.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/symbolic_device.h"

namespace twofold::nn {
namespace module_test {

using twofold::test::SymbolicDevice;

struct WithBuffer : Module {
  WithBuffer() {
    AddParameter("scale", Shape{3}, DType::kF32, {Init::kConstant, 1});
    AddBuffer("running_mean", Shape{3}, DType::kF32, {});
  }
  Tensor Forward(Context&, const Tensor& x, Saved&) override { return x; }
  Tensor BackwardInput(Context&, Tensor dy, Saved&) override { return dy; }
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "with_buffer"; }
};

std::vector<std::string> Names(const std::vector<Parameter*>& parameters) {
  std::vector<std::string> names;
  for (const Parameter* p : parameters) names.push_back(p->name());
  return names;
}

// Counts the passes through what it wraps.
class Counted : public Sequential {
 public:
  Counted(std::unique_ptr<Module> inner, int* calls) : calls_(calls) { Add("", std::move(inner)); }
  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override {
    ++*calls_;
    return Sequential::Forward(ctx, x, saved);
  }
  Tensor Backward(Context& ctx, Tensor dy, Saved& saved) override {
    ++*calls_;
    return Sequential::Backward(ctx, std::move(dy), saved);
  }

 private:
  int* calls_;
};

TEST(ModuleTest, FinalizeGivesPathsAndNames) {
  Sequential root;
  auto inner = std::make_unique<Sequential>();
  inner->Add("norm", std::make_unique<WithBuffer>());
  root.Add("first", std::make_unique<Linear>(LinearConfig{.in = 3, .out = 3}));
  Sequential* held = root.Add("inner", std::move(inner));
  root.Finalize("model");
  EXPECT_THAT(Names(root.Parameters()),
              ::testing::ElementsAre("model.first.weight", "model.first.bias", "model.inner.norm.scale"));
  EXPECT_THAT(Names(root.Buffers()), ::testing::ElementsAre("model.inner.norm.running_mean"));
  EXPECT_EQ(held->path(), "model.inner");
  EXPECT_EQ(root.ParameterCount(), 9 + 3 + 3);
  EXPECT_DEATH(root.Finalize(), "already has its names");
}

TEST(ModuleTest, ASharedParameterIsListedOnce) {
  Sequential root;
  Linear* first = root.Add("first", std::make_unique<Linear>(LinearConfig{.in = 3, .out = 3, .bias = false}));
  root.Add("second", std::make_unique<Linear>(LinearConfig{.in = 3, .out = 3, .bias = false}, first->Parameters()[0]));
  EXPECT_EQ(root.ParameterCount(), 9);
}

TEST(ModuleTest, AWrapperIsUsedAndNamesStay) {
  SymbolicDevice device;
  Context ctx{.device = device, .stream = device.compute()};
  Sequential root;
  root.Add("a", std::make_unique<Linear>(LinearConfig{.in = 4, .out = 4}));
  root.Add("b", std::make_unique<Linear>(LinearConfig{.in = 4, .out = 4}));
  root.Finalize();
  const std::vector<std::string> names = Names(root.Parameters());
  int calls = 0;
  root.WrapChild(1, [&](std::unique_ptr<Module> m) { return std::make_unique<Counted>(std::move(m), &calls); });
  EXPECT_EQ(Names(root.Parameters()), names);
  EXPECT_EQ(root.children()[1].module->path(), "b");
  for (Parameter* p : root.Parameters()) {
    p->set_data(device.NewTensor(p->shape(), p->dtype(), Category::kParameters));
    p->set_gradient(device.NewTensor(p->shape(), p->dtype(), Category::kGradients));
  }
  Saved saved;
  const Tensor y = root.Forward(ctx, ctx.Activation(Shape{2, 4}, DType::kF32), saved);
  root.Backward(ctx, y, saved);
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(saved.empty());
}

TEST(SavedTest, TakeAndClear) {
  SymbolicDevice device;
  Saved saved;
  EXPECT_TRUE(saved.empty());
  saved.child(2)[1] = device.NewTensor(Shape{2}, DType::kF32, Category::kActivations);
  EXPECT_FALSE(saved.empty());
  EXPECT_TRUE(saved.child(2).Take(1).unique());
  EXPECT_TRUE(saved.empty());
  saved.child(0)[0] = device.NewTensor(Shape{2}, DType::kF32, Category::kActivations);
  saved.child(0).key = PhiloxKey{1};
  saved.Clear();
  EXPECT_TRUE(saved.empty());
  EXPECT_FALSE(saved.child(0).key.has_value());
  EXPECT_EQ(device.Live(Category::kActivations), Bytes(0));
}

TEST(DropoutTest, WithoutANameItAborts) {
  SymbolicDevice device;
  Context ctx{.device = device, .stream = device.compute()};
  const Tensor x = ctx.Activation(Shape{4}, DType::kF32);
  Saved saved;
  Dropout nameless(0.5), named(0.5, DropoutMasks::kRecomputed, "site");
  EXPECT_DEATH(nameless.Forward(ctx, x, saved), "site");
  named.Forward(ctx, x, saved);
  EXPECT_EQ(device.launched().size(), 1u);
}

TEST(DropoutTest, OffMeansNothingLaunchedAndNothingAllocated) {
  SymbolicDevice device;
  Context ctx{.device = device, .stream = device.compute()};
  const Tensor x = ctx.Activation(Shape{4}, DType::kF32);
  const Bytes before = device.memory().peak;
  Saved saved;
  Dropout none(0), some(0.5, DropoutMasks::kRecomputed, "site");
  EXPECT_EQ(none.Forward(ctx, x, saved).address(), x.address());
  EXPECT_EQ(none.Backward(ctx, x, saved).address(), x.address());
  ctx.training = false;
  EXPECT_EQ(some.Forward(ctx, x, saved).address(), x.address());
  EXPECT_EQ(some.Backward(ctx, x, saved).address(), x.address());
  EXPECT_TRUE(device.launched().empty());
  EXPECT_EQ(device.memory().peak, before);
}

}  // namespace module_test
}  // namespace twofold::nn
