// The order of backward, micro-batches, tied parameters and what is left in memory.
#include <algorithm>

#include "core/nn/gpt.h"
#include "core/nn/llama.h"
#include "core/nn/loss.h"
#include "core/nn/mlp_model.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/testing.h"

namespace twofold::nn {
namespace backward_test {

using twofold::test::Cpu;
using twofold::test::Gradients;
using twofold::test::Materialize;
using twofold::test::Random;
using twofold::test::RandomIds;
using twofold::test::Scatter;
using twofold::test::Values;
using twofold::test::ZeroGradients;

constexpr GptConfig kGpt{
    .layers = 2, .hidden = 8, .heads = 2, .vocab = 11, .sequence = 5, .dropout = 0.25, .dtype = DType::kF64};

class BackwardTest : public ::testing::Test {
 protected:
  BackwardTest() : model_(kGpt) {
    model_.Finalize();
    Materialize(cpu_.ctx, model_);
    Scatter(model_, 0.3);
    for (uint64_t i = 0; i < 2; ++i) {
      ids_[i] = RandomIds(cpu_, Shape{2, 5}, kGpt.vocab, 20 + i);
      targets_[i] = RandomIds(cpu_, Shape{2, 5}, kGpt.vocab, 30 + i);
    }
  }

  struct MicroBatch {
    Saved model, loss;
  };
  void Forward(int64_t i, MicroBatch& m) {
    cpu_.ctx.micro_batch = i;
    const Tensor logits = model_.Forward(cpu_.ctx, ids_[i], m.model);
    SoftmaxCrossEntropy::Forward(cpu_.ctx, logits, targets_[i], m.loss);
  }
  void Backward(MicroBatch& m) { model_.Backward(cpu_.ctx, SoftmaxCrossEntropy::Backward(cpu_.ctx, m.loss), m.model); }
  std::vector<std::vector<double>> Run(int64_t i) {
    ZeroGradients(model_);
    MicroBatch m;
    Forward(i, m);
    Backward(m);
    return Gradients(model_);
  }

  Cpu cpu_;
  GptModel model_;
  Tensor ids_[2], targets_[2];
};

TEST_F(BackwardTest, InputsFirstWeightsLaterGivesTheSameBits) {
  const auto together = Run(0);
  ZeroGradients(model_);
  MicroBatch m;
  Forward(0, m);
  model_.BackwardInput(cpu_.ctx, SoftmaxCrossEntropy::Backward(cpu_.ctx, m.loss), m.model);
  for (Parameter* p : model_.Parameters()) EXPECT_FALSE(p->has_gradient()) << p->name();
  EXPECT_FALSE(m.model.empty());
  model_.BackwardWeights(cpu_.ctx, m.model);
  EXPECT_EQ(Gradients(model_), together);
  EXPECT_TRUE(m.model.empty());
}

TEST_F(BackwardTest, TwoMicroBatchesAddUp) {
  const auto first = Run(0), second = Run(1);
  ASSERT_NE(first, second);
  ZeroGradients(model_);
  MicroBatch a, b;
  Forward(0, a), Backward(a);
  Forward(1, b), Backward(b);
  const auto sum = Gradients(model_);
  for (size_t p = 0; p < sum.size(); ++p) {
    for (size_t i = 0; i < sum[p].size(); ++i) EXPECT_NEAR(sum[p][i], first[p][i] + second[p][i], 1e-12);
  }
}

// As a pipeline has them: both forward before either goes back, in either order, with the context moved on.
TEST_F(BackwardTest, MicroBatchesInFlightDoNotDisturbEachOther) {
  ZeroGradients(model_);
  MicroBatch a, b;
  Forward(0, a), Backward(a), Forward(1, b), Backward(b);
  const auto one_by_one = Gradients(model_);
  ZeroGradients(model_);
  Forward(0, a), Forward(1, b), Backward(a), Backward(b);
  EXPECT_EQ(Gradients(model_), one_by_one);
  const auto first = Run(0);
  ZeroGradients(model_);
  Forward(0, a), Forward(1, b);
  b.model.Clear();  // the second is given up
  Backward(a);
  EXPECT_EQ(Gradients(model_), first);
}

TEST_F(BackwardTest, SameCoordinatesSameMaskOthersAnother) {
  auto loss = [&] {
    Saved saved, kept;
    return SoftmaxCrossEntropy::Forward(cpu_.ctx, model_.Forward(cpu_.ctx, ids_[0], saved), targets_[0], kept)
        .data<double>()[0];
  };
  const double base = loss();
  EXPECT_EQ(loss(), base);
  cpu_.ctx.micro_batch = 1;
  EXPECT_NE(loss(), base);
  cpu_.ctx.micro_batch = 0, cpu_.ctx.step = 1;
  EXPECT_NE(loss(), base);
  cpu_.ctx.step = 0;
  EXPECT_EQ(loss(), base);
  cpu_.ctx.training = false;
  const double without = loss();
  EXPECT_NE(without, base);
  cpu_.ctx.step = 5;
  EXPECT_EQ(loss(), without);
}

TEST_F(BackwardTest, GradientsBecomeReadyOnceInReverseOrder) {
  std::vector<std::string> ready;
  std::vector<double> tied;
  for (Parameter* p : model_.Parameters()) {
    p->SetReadyHook([&](Parameter& q) {
      ready.push_back(q.name());
      if (q.name() == "token_embedding.weight") tied = Values(q.gradient());
    });
  }
  std::vector<std::string> expected;
  for (Parameter* p : model_.Parameters()) expected.push_back(p->name());
  std::reverse(expected.begin(), expected.end());
  for (int pass = 0; pass < 2; ++pass) {
    ready.clear();
    const auto gradients = Run(pass);
    EXPECT_EQ(ready, expected);
    EXPECT_EQ(tied, gradients[0]) << "the hook of the tied table runs after both of its uses";
  }
}

TEST_F(BackwardTest, NothingIsLeftBehind) {
  const Bytes before = cpu_.Live(Category::kActivations);
  for (int step = 0; step < 2; ++step) {
    ZeroGradients(model_);
    MicroBatch a, b;
    Forward(0, a), Forward(1, b);
    EXPECT_GT(cpu_.Live(Category::kActivations), before);
    Backward(a), Backward(b);
    EXPECT_TRUE(a.model.empty() && a.loss.empty() && b.model.empty() && b.loss.empty());
    EXPECT_EQ(cpu_.Live(Category::kActivations), before);
  }
}

// A step's loss and gradients.
template <class Model, class Config>
std::vector<std::vector<double>> Step(const Config& config, bool halves = false) {
  Cpu cpu;
  Model model(config);
  model.Finalize();
  Materialize(cpu.ctx, model);
  Scatter(model, 0.3);
  const Tensor ids = RandomIds(cpu, Shape{2, 5}, config.vocab, 20),
               targets = RandomIds(cpu, Shape{2, 5}, config.vocab, 30);
  Saved saved, kept;
  const Tensor logits = model.Forward(cpu.ctx, ids, saved);
  std::vector<std::vector<double>> all = {Values(SoftmaxCrossEntropy::Forward(cpu.ctx, logits, targets, kept))};
  Tensor dy = SoftmaxCrossEntropy::Backward(cpu.ctx, kept);
  if (halves) {
    model.BackwardInput(cpu.ctx, std::move(dy), saved);
    model.BackwardWeights(cpu.ctx, saved);
  } else {
    model.Backward(cpu.ctx, std::move(dy), saved);
  }
  EXPECT_TRUE(saved.empty());
  for (auto& gradient : Gradients(model)) all.push_back(std::move(gradient));
  return all;
}

void ExpectNear(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t p = 0; p < a.size(); ++p) {
    ASSERT_EQ(a[p].size(), b[p].size());
    for (size_t i = 0; i < a[p].size(); ++i) EXPECT_NEAR(a[p][i], b[p][i], 1e-12) << p << ", " << i;
  }
}

const LlamaConfig kLlama{
    .layers = 2, .hidden = 8, .heads = 4, .vocab = 11, .kv_heads = 2, .ffn = 12, .sequence = 5, .dtype = DType::kF64};

TEST(BackwardLlamaTest, InputsFirstWeightsLaterGivesTheSameBits) {
  EXPECT_EQ(Step<LlamaModel>(kLlama, true), Step<LlamaModel>(kLlama, false));
}

TEST(UnfusedAttentionTest, IsTheSameFunctionAsTiled) {
  LlamaConfig llama = kLlama;
  llama.unfused_attention = true;
  ExpectNear(Step<LlamaModel>(llama), Step<LlamaModel>(kLlama));
  GptConfig gpt = kGpt;
  gpt.unfused_attention = true;
  ExpectNear(Step<GptModel>(gpt), Step<GptModel>(kGpt));
}

TEST(StoredMasksTest, GiveTheSameBits) {
  GptConfig gpt = kGpt;
  gpt.unfused_attention = true, gpt.attention_dropout = 0.3;
  const auto recomputed = Step<GptModel>(gpt);
  gpt.masks = DropoutMasks::kStored;
  EXPECT_EQ(Step<GptModel>(gpt), recomputed);
  gpt.attention_dropout = 0;
  EXPECT_NE(Step<GptModel>(gpt), recomputed);
}

TEST(BackwardMlpTest, InputsFirstWeightsLaterGivesTheSameBits) {
  Cpu cpu;
  MlpModel model({.inputs = 6, .hidden = {9, 5}, .classes = 4, .dropout = 0.3, .dtype = DType::kF64});
  model.Finalize();
  Materialize(cpu.ctx, model);
  const Tensor x = Random(cpu, Shape{7, 6}, 1), dy = Random(cpu, Shape{7, 4}, 2);
  Saved saved;
  model.Forward(cpu.ctx, x, saved);
  const std::vector<double> dx = Values(model.Backward(cpu.ctx, dy, saved));
  const auto together = Gradients(model);
  ZeroGradients(model);
  model.Forward(cpu.ctx, x, saved);
  EXPECT_EQ(Values(model.BackwardInput(cpu.ctx, dy, saved)), dx);
  model.BackwardWeights(cpu.ctx, saved);
  EXPECT_EQ(Gradients(model), together);
  EXPECT_TRUE(saved.empty());
}

}  // namespace backward_test
}  // namespace twofold::nn
