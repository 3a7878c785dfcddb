// Models on a device without data: what they launch, what it costs and what they keep.
#include "core/nn/activation.h"
#include "core/nn/flops.h"
#include "core/nn/linear.h"
#include "core/nn/loss.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/symbolic_device.h"

namespace twofold::nn {
namespace symbolic_test {

using twofold::test::SymbolicDevice;

struct Symbolic {
  SymbolicDevice device;
  Context ctx{.device = device, .stream = device.compute()};

  void Materialize(Module& module) {
    module.Finalize();
    for (Parameter* p : module.Parameters()) {
      p->set_data(device.NewTensor(p->shape(), p->dtype(), Category::kParameters));
      p->set_gradient(device.NewTensor(p->shape(), p->dtype(), Category::kGradients));
    }
  }
  double Flops(std::string_view kernel) const {  // of the kernels whose name starts so
    double sum = 0;
    for (const auto& l : device.launched()) sum += l.key.name.starts_with(kernel) ? l.cost.flops.value() : 0;
    return sum;
  }
  int64_t Count(std::string_view kernel) const {
    int64_t n = 0;
    for (const auto& l : device.launched()) n += l.key.name == kernel;
    return n;
  }
};

TEST(FlopsTest, GptFormulaIsWhatIsLaunched) {
  for (const bool tied : {true, false}) {
    const GptConfig config{
        .layers = 3, .hidden = 64, .heads = 4, .vocab = 100, .sequence = 16, .ffn = 96, .tied = tied};
    Symbolic s;
    GptModel model(config);
    s.Materialize(model);
    Saved saved;
    Tensor logits = model.Forward(s.ctx, s.ctx.Activation(Shape{5, 16}, DType::kI32), saved);
    EXPECT_EQ(s.Flops("matmul") + s.Flops("attention"), 5 * ForwardFlopsByBlock(config).Sum());
    const double products = s.Flops("matmul"), attention = s.Flops("attention");
    s.device.Forget();
    model.Backward(s.ctx, std::move(logits), saved);
    EXPECT_EQ(s.Flops("matmul"), 2 * products);
    EXPECT_EQ(s.Flops("attention"), 2.5 * attention) << "5 products: the scores are computed again";
  }
}

TEST(FlopsTest, LlamaFormulaIsWhatIsLaunched) {
  const LlamaConfig config{
      .layers = 3, .hidden = 64, .heads = 4, .vocab = 100, .kv_heads = 2, .head_dim = 24, .ffn = 96, .sequence = 16};
  Symbolic s;
  LlamaModel model(config);
  s.Materialize(model);
  Saved saved;
  Tensor logits = model.Forward(s.ctx, s.ctx.Activation(Shape{5, 16}, DType::kI32), saved);
  EXPECT_EQ(s.Flops("matmul") + s.Flops("attention"), 5 * ForwardFlopsByBlock(config).Sum());
  const double products = s.Flops("matmul");
  s.device.Forget();
  model.Backward(s.ctx, std::move(logits), saved);
  EXPECT_EQ(s.Flops("matmul"), 2 * products);
}

// By hand, a token's forward pass: GPT-2 has 12 * (2 * 12 * 768^2 + 2 * 1024 * 768) + 2 * 768 * 50257; Llama 2 70B
// 80 * (2 * 8192 * (2 * 8192 + 2 * 1024 + 3 * 28672) + 2 * 4096 * 8192) + 2 * 8192 * 32000.
TEST(FlopsTest, PublishedModelsByHand) {
  const GptConfig gpt2{.layers = 12, .hidden = 768, .heads = 12, .vocab = 50257, .sequence = 1024};
  EXPECT_EQ(ForwardFlopsByBlock(gpt2).Sum(), 1024 * 265938432.0);
  const LlamaConfig llama{
      .layers = 80, .hidden = 8192, .heads = 64, .vocab = 32000, .kv_heads = 8, .ffn = 28672, .sequence = 4096};
  EXPECT_EQ(2 * ForwardFlopsByBlock(llama).Sum(), 2 * 4096 * 142795079680.0);
}

// A token costs 6 of them a weight of the matrices that it meets (Kaplan et al. 2020, section 2.1), and attention.
// Looking a row up costs none.
template <class Model, class Config>
void ExpectSixAWeight(const Config& config, double flops, double queries) {
  Model model(config);
  model.Finalize();
  double weights = 0;
  for (const Parameter* p : model.Parameters()) {
    const bool looked_up =
        p->name() == "position_embedding.weight" || (p->name() == "token_embedding.weight" && !config.tied);
    if (p->shape().rank() == 2 && !looked_up) weights += static_cast<double>(p->numel());
  }
  const auto t = static_cast<double>(config.sequence), layers = static_cast<double>(config.layers);
  EXPECT_EQ(flops, 7 * t * (6 * weights + layers * 6 * t * queries));
}

TEST(FlopsTest, SixAWeightAndToken) {
  for (const bool tied : {true, false}) {
    const GptConfig gpt{.layers = 3, .hidden = 64, .heads = 4, .vocab = 100, .sequence = 16, .ffn = 96, .tied = tied};
    ExpectSixAWeight<GptModel>(gpt, 3 * 7 * ForwardFlopsByBlock(gpt).Sum(), 64);
    const LlamaConfig llama{.layers = 3,
                            .hidden = 64,
                            .heads = 6,
                            .vocab = 100,
                            .kv_heads = 2,
                            .head_dim = 24,
                            .ffn = 96,
                            .sequence = 16,
                            .tied = tied};
    ExpectSixAWeight<LlamaModel>(llama, 3 * 7 * ForwardFlopsByBlock(llama).Sum(), 6 * 24);
  }
}

TEST(FlopsTest, MlpFormulaIsWhatIsLaunched) {
  const MlpConfig config{.inputs = 20, .hidden = {30, 40}, .classes = 10};
  Symbolic s;
  MlpModel model(config);
  s.Materialize(model);
  Saved saved;
  Tensor logits = model.Forward(s.ctx, s.ctx.Activation(Shape{8, 20}, DType::kF32), saved);
  model.Backward(s.ctx, std::move(logits), saved);
  EXPECT_EQ(s.Flops("matmul"), 3 * 8 * ForwardFlopsByBlock(config).Sum());
}

// What a block keeps, a token: x, both norms' outputs, qkv, attention's output, r, and the feed-forward part
// twice (before and after GELU), besides four norm statistics and a log-sum-exp a head.
TEST(SymbolicTest, ABlockKeepsWhatItMust) {
  constexpr int64_t kHidden = 128, kFfn = 512, kHeads = 4, kTokens = 2 * 64;
  Symbolic s;
  TransformerBlock block({.hidden = kHidden, .heads = kHeads, .ffn = kFfn});
  s.Materialize(block);
  Saved saved;
  Tensor y;
  {
    const Tensor x = s.ctx.Activation(Shape{2, 64, kHidden}, DType::kF32);
    y = block.Forward(s.ctx, x, saved);
  }
  const int64_t kept = kHidden * (1 + 2 + 3 + 1 + 1) + 2 * kFfn + 4 + kHeads;
  EXPECT_EQ(s.device.Live(Category::kActivations), Bytes(4 * kTokens * (kept + kHidden /* y */)));
  block.Backward(s.ctx, std::move(y), saved);
  EXPECT_EQ(s.device.Live(Category::kActivations), Bytes(0));
}

// What a Llama block keeps, a token: x, both norms' outputs, the turned qkv, attention's output, r, gates, values and
// their product, besides two norm statistics and a log-sum-exp a head. The rotary table is not an activation.
TEST(SymbolicTest, ALlamaBlockKeepsWhatItMust) {
  const LlamaConfig config{.layers = 1, .hidden = 128, .heads = 4, .kv_heads = 2, .ffn = 384, .sequence = 64};
  Symbolic s;
  const auto block = MakeLlamaBlock(config, MakeRotaryTable(config));
  s.Materialize(*block);
  Saved saved;
  Tensor y;
  {
    const Tensor x = s.ctx.Activation(Shape{2, 64, 128}, DType::kF32);
    y = block->Forward(s.ctx, x, saved);
  }
  const int64_t kept = 128 * (1 + 2 + 2 + 1 + 1) + 3 * 384 + 2 + 4;
  EXPECT_EQ(s.device.Live(Category::kActivations), Bytes(4 * 128 * (kept + 128 /* y */)));
  EXPECT_EQ(s.device.Live(Category::kOther), Bytes(4 * 64 * 32));
  block->Backward(s.ctx, std::move(y), saved);
  EXPECT_EQ(s.device.Live(Category::kActivations), Bytes(0));
}

// Unfused attention keeps the probabilities in place of the output and the log-sum-exp; with dropout also what was left
// of them, and, where masks are stored, a byte an element.
TEST(SymbolicTest, WhatIsStoredIsWhatTheSpecSays) {
  constexpr int64_t kQkv = 2 * 64 * 3 * 128 * 4, kOut = kQkv / 3, kScores = 2 * 4 * 64 * 64;
  const auto kept = [](bool unfused, double dropout, DropoutMasks masks) {
    Symbolic s;
    Sequential module;
    if (unfused)
      module.Add("core", std::make_unique<UnfusedAttentionCore>(4, 4, dropout, masks));
    else
      module.Add("core", std::make_unique<AttentionCore>(4));
    s.Materialize(module);
    Saved saved;
    Tensor y = module.Forward(s.ctx, s.ctx.Activation(Shape{2, 64, 3 * 128}, DType::kF32), saved);
    const Bytes live = s.device.Live(Category::kActivations);
    module.Backward(s.ctx, std::move(y), saved);
    EXPECT_EQ(s.device.Live(Category::kActivations), Bytes(0));
    return live.value();
  };
  using enum DropoutMasks;
  EXPECT_EQ(kept(false, 0, kRecomputed), kQkv + kOut + 4 * 2 * 4 * 64);
  EXPECT_EQ(kept(true, 0, kRecomputed), kQkv + kOut + 4 * kScores);
  EXPECT_EQ(kept(true, 0.1, kRecomputed), kQkv + kOut + 8 * kScores);
  EXPECT_EQ(kept(true, 0.1, kStored), kQkv + kOut + 9 * kScores);
}

// While the blocks go back, the gradient of the logits is gone.
TEST(SymbolicTest, BackwardFreesAsItGoes) {
  Symbolic s;
  GptModel model({.layers = 4, .hidden = 128, .heads = 4, .vocab = 8192, .sequence = 64});
  s.Materialize(model);
  Saved saved, loss;
  SoftmaxCrossEntropy::Forward(s.ctx, model.Forward(s.ctx, s.ctx.Activation(Shape{2, 64}, DType::kI32), saved),
                               s.ctx.Activation(Shape{2, 64}, DType::kI32), loss);
  const Bytes after_forward = s.device.Live(Category::kActivations), logits(4 * 128 * 8192);
  std::vector<Bytes> live;  // as each parameter becomes ready, head first
  for (Parameter* p : model.Parameters()) {
    p->SetReadyHook([&](Parameter&) { live.push_back(s.device.Live(Category::kActivations)); });
  }
  model.Backward(s.ctx, SoftmaxCrossEntropy::Backward(s.ctx, loss), saved);
  ASSERT_EQ(live.size(), model.Parameters().size());
  EXPECT_LT(live[0], after_forward - logits + MiB(1));  // the final norm's bias
  EXPECT_LT(live.back(), live[0] - MiB(1));
  EXPECT_EQ(s.device.Live(Category::kActivations), Bytes(0));
}

TEST(SymbolicTest, GradientsAreWrittenInPlaceOnlyWhenNobodyElseHoldsThem) {
  Symbolic s;
  Gelu gelu;
  Saved saved;
  const Tensor x = s.ctx.Activation(Shape{1024}, DType::kF32);
  gelu.Forward(s.ctx, x, saved);
  Tensor dy = s.ctx.Activation(Shape{1024}, DType::kF32);
  const Address address = dy.address();
  EXPECT_NE(gelu.Backward(s.ctx, dy, saved).address(), address);
  gelu.Forward(s.ctx, x, saved);
  EXPECT_EQ(gelu.Backward(s.ctx, std::move(dy), saved).address(), address);
}

TEST(SymbolicTest, AStepLaunchesTheSameEveryTime) {
  Symbolic s;
  GptModel model({.layers = 2, .hidden = 32, .heads = 2, .vocab = 64, .sequence = 8});
  s.Materialize(model);
  Saved saved, loss;
  auto step = [&] {
    s.device.Forget();
    SoftmaxCrossEntropy::Forward(s.ctx, model.Forward(s.ctx, s.ctx.Activation(Shape{2, 8}, DType::kI32), saved),
                                 s.ctx.Activation(Shape{16}, DType::kU8), loss);
    model.Backward(s.ctx, SoftmaxCrossEntropy::Backward(s.ctx, loss), saved);
    return s.device.launched().size();
  };
  const size_t first = step();
  const Bytes peak = s.device.memory().peak, reserved = s.device.memory().reserved;
  EXPECT_EQ(step(), first);
  EXPECT_EQ(s.device.memory().peak, peak);
  EXPECT_EQ(s.device.memory().reserved, reserved);
  EXPECT_EQ(s.Count("dropout"), 0);
  EXPECT_EQ(s.Count("attention_forward"), 2);
  EXPECT_EQ(s.Count("add"), 2);     // of the two residual sums of a block the second; a norm takes the first
  EXPECT_EQ(s.Count("add_to"), 0);  // as norms take their gradients'
  EXPECT_EQ(s.Count("matmul_gelu"), 2);
  EXPECT_EQ(s.Count("matmul_gelu_slope"), 2);
  EXPECT_EQ(s.Count("gelu_forward") + s.Count("gelu_backward"), 0);
}

}  // namespace symbolic_test
}  // namespace twofold::nn
