// Every layer and model against central differences in f64, for every parameter and every input element.
#include <algorithm>

#include "core/nn/activation.h"
#include "core/nn/attention.h"
#include "core/nn/dropout.h"
#include "core/nn/embedding.h"
#include "core/nn/gpt.h"
#include "core/nn/layer_norm.h"
#include "core/nn/linear.h"
#include "core/nn/llama.h"
#include "core/nn/loss.h"
#include "core/nn/mlp.h"
#include "core/nn/mlp_model.h"
#include "core/nn/position_embedding.h"
#include "core/nn/rms_norm.h"
#include "core/nn/rotary.h"
#include "core/nn/swiglu.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/gradient_check.h"
#include "tests/unit/nn/testing.h"

namespace twofold::nn {
namespace gradient_check_test {

using twofold::test::Cpu;
using twofold::test::Materialize;
using twofold::test::Random;
using twofold::test::RandomIds;
using twofold::test::Scatter;
using twofold::test::Values;

LinearConfig F64Linear(int64_t in, int64_t out, bool bias) {
  return {.in = in, .out = out, .bias = bias, .dtype = DType::kF64};
}

TEST(GradientCheck, Linear) {
  for (const bool bias : {false, true}) {
    for (const Shape& shape : {Shape{3}, Shape{4, 3}, Shape{2, 5, 3}, Shape{1, 1, 2, 3}}) {
      Cpu cpu;
      Linear layer(F64Linear(3, 6, bias));
      CheckModule(cpu, layer, Random(cpu, shape, 1));
    }
  }
}

TEST(GradientCheck, LayerNorm) {
  for (const Shape& shape : {Shape{1, 7}, Shape{3, 2}, Shape{2, 3, 8}}) {
    Cpu cpu;
    LayerNorm layer(shape[-1], DType::kF64);
    CheckModule(cpu, layer, Random(cpu, shape, 2));
  }
}

TEST(GradientCheck, RmsNorm) {
  for (const Shape& shape : {Shape{1, 7}, Shape{3, 2}, Shape{2, 3, 8}}) {
    Cpu cpu;
    RmsNorm layer(shape[-1], DType::kF64);
    CheckModule(cpu, layer, Random(cpu, shape, 2));
  }
}

TEST(GradientCheck, SwiGlu) {
  for (const Shape& shape : {Shape{2}, Shape{5, 6}, Shape{2, 3, 4}}) {
    Cpu cpu;
    SwiGlu layer;
    CheckModule(cpu, layer, Random(cpu, shape, 3));
  }
}

TEST(GradientCheck, GatedMlp) {
  Cpu cpu;
  GatedMlp layer({.hidden = 4, .ffn = 6, .dtype = DType::kF64});
  CheckModule(cpu, layer, Random(cpu, Shape{2, 3, 4}, 10));
}

TEST(GradientCheck, Rotary) {
  for (const RopeScaling& scaling : {RopeScaling{}, RopeScaling{.kind = RopeScaling::kLinear, .factor = 3},
                                     RopeScaling{.kind = RopeScaling::kLlama3, .factor = 8, .original_sequence = 4}}) {
    Cpu cpu;
    Rotary layer(
        std::make_shared<RotaryTable>(RopeConfig{.head_dim = 4, .theta = 50, .scaling = scaling}, 5, DType::kF64), 2);
    CheckModule(cpu, layer, Random(cpu, Shape{2, 4, 11}, 4));
  }
}

TEST(GradientCheck, Activations) {
  for (const Shape& shape : {Shape{1}, Shape{5, 3}, Shape{2, 3, 4}}) {
    Cpu cpu;
    Gelu gelu;
    CheckModule(cpu, gelu, Random(cpu, shape, 3));
    Relu relu;
    CheckModule(cpu, relu, Random(cpu, shape, 4));
  }
}

TEST(GradientCheck, Dropout) {
  for (const DropoutMasks masks : {DropoutMasks::kRecomputed, DropoutMasks::kStored}) {
    for (const double p : {0.0, 0.1, 0.7}) {
      Cpu cpu;
      Dropout layer(p, masks);
      CheckModule(cpu, layer, Random(cpu, Shape{3, 17}, 5));
    }
  }
}

TEST(GradientCheck, Embedding) {
  for (const Shape& shape : {Shape{1}, Shape{2, 5}}) {  // ids repeat: 5 rows, up to 10 draws
    Cpu cpu;
    Embedding layer(5, 3, DType::kF64, {});
    CheckModule(cpu, layer, RandomIds(cpu, shape, 5, 6));
  }
}

TEST(GradientCheck, PositionEmbedding) {
  for (const int64_t t : {1, 4, 6}) {
    Cpu cpu;
    PositionEmbedding layer(6, 3, DType::kF64, {});
    CheckModule(cpu, layer, Random(cpu, Shape{2, t, 3}, 7));
  }
}

TEST(GradientCheck, AttentionCore) {
  struct Case {
    int64_t heads, kv_heads, head_dim, t;
  };
  for (const Case& c : {Case{1, 1, 4, 1}, Case{2, 2, 3, 5}, Case{4, 2, 2, 6}}) {
    Cpu cpu;
    AttentionCore layer(c.heads, c.kv_heads);
    CheckModule(cpu, layer, Random(cpu, Shape{2, c.t, (c.heads + 2 * c.kv_heads) * c.head_dim}, 8));
  }
}

TEST(GradientCheck, UnfusedAttentionCore) {
  struct Case {
    int64_t heads, kv_heads, head_dim, t;
    double dropout;
    DropoutMasks masks;
  };
  for (const Case& c : {Case{1, 1, 4, 1, 0, {}}, Case{2, 2, 3, 5, 0.3, DropoutMasks::kRecomputed},
                        Case{4, 2, 2, 6, 0.3, DropoutMasks::kStored}, Case{4, 1, 2, 3, 0, {}}}) {
    Cpu cpu;
    UnfusedAttentionCore layer(c.heads, c.kv_heads, c.dropout, c.masks);
    CheckModule(cpu, layer, Random(cpu, Shape{2, c.t, (c.heads + 2 * c.kv_heads) * c.head_dim}, 8));
  }
}

TEST(GradientCheck, CausalSelfAttention) {
  for (const bool unfused : {false, true}) {
    Cpu cpu;
    CausalSelfAttention layer({.hidden = 6, .heads = 2, .unfused = unfused, .dtype = DType::kF64});
    CheckModule(cpu, layer, Random(cpu, Shape{2, 4, 6}, 9));
  }
}

TEST(GradientCheck, GroupedRotaryAttention) {
  for (const bool unfused : {false, true}) {
    Cpu cpu;
    const auto table = std::make_shared<RotaryTable>(RopeConfig{.head_dim = 4}, 5, DType::kF64);
    CausalSelfAttention layer({.hidden = 6,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 4,
                               .projection_bias = false,
                               .rotary = table,
                               .unfused = unfused,
                               .dtype = DType::kF64});
    CheckModule(cpu, layer, Random(cpu, Shape{2, 4, 6}, 9));
  }
}

TEST(GradientCheck, Mlp) {
  Cpu cpu;
  Mlp layer({.hidden = 4, .ffn = 10, .dtype = DType::kF64});
  CheckModule(cpu, layer, Random(cpu, Shape{2, 3, 4}, 10));
}

TEST(GradientCheck, TransformerBlock) {
  for (const double dropout : {0.0, 0.3}) {
    Cpu cpu;
    TransformerBlock block({.hidden = 6, .heads = 3, .ffn = 8, .dropout = dropout, .dtype = DType::kF64});
    CheckModule(cpu, block, Random(cpu, Shape{2, 3, 6}, 11));
  }
}

TEST(GradientCheck, LlamaBlock) {
  for (const bool unfused : {false, true}) {
    Cpu cpu;
    const LlamaConfig config{.layers = 1,
                             .hidden = 8,
                             .heads = 4,
                             .kv_heads = 2,
                             .ffn = 6,
                             .sequence = 5,
                             .qkv_bias = true,
                             .unfused_attention = unfused,
                             .dtype = DType::kF64};
    const auto block = MakeLlamaBlock(config, MakeRotaryTable(config));
    CheckModule(cpu, *block, Random(cpu, Shape{2, 3, 8}, 11));
  }
}

TEST(GradientCheck, Sequential) {
  Cpu cpu;
  Sequential chain;
  chain.Add("in", std::make_unique<Linear>(F64Linear(3, 5, true)));
  chain.Add("gelu", std::make_unique<Gelu>());
  chain.Add("norm", std::make_unique<LayerNorm>(5, DType::kF64));
  chain.Add("relu", std::make_unique<Relu>());
  chain.Add("dropout", std::make_unique<Dropout>(0.4));
  CheckModule(cpu, chain, Random(cpu, Shape{4, 3}, 12));
}

TEST(GradientCheck, MlpModel) {
  for (const double dropout : {0.0, 0.3}) {
    for (const std::vector<int64_t>& hidden : {std::vector<int64_t>{}, {7}, {5, 6}}) {
      Cpu cpu;
      MlpModel model({.inputs = 4, .hidden = hidden, .classes = 3, .dropout = dropout, .dtype = DType::kF64});
      CheckModule(cpu, model, Random(cpu, Shape{5, 4}, 13));
    }
  }
}

// Through the loss, as training runs it.
template <class Model, class Config>
void CheckLanguageModel(const Config& config, int64_t t) {
  Cpu cpu;
  Model model(config);
  model.Finalize();
  Materialize(cpu.ctx, model);
  Scatter(model, 0.3);
  const Tensor ids = RandomIds(cpu, Shape{2, t}, config.vocab, 14),
               targets = RandomIds(cpu, Shape{2, t}, config.vocab, 15);
  const double scale = 0.5;  // as one of two micro-batches
  auto loss = [&] {
    Saved saved, kept;
    const Tensor logits = model.Forward(cpu.ctx, ids, saved);
    return scale * SoftmaxCrossEntropy::Forward(cpu.ctx, logits, targets, kept).data<double>()[0];
  };

  Saved saved, kept;
  SoftmaxCrossEntropy::Forward(cpu.ctx, model.Forward(cpu.ctx, ids, saved), targets, kept);
  const Tensor dx = model.Backward(cpu.ctx, SoftmaxCrossEntropy::Backward(cpu.ctx, kept, scale), saved);
  EXPECT_TRUE(dx.empty()) << "token ids have no gradient";
  EXPECT_TRUE(saved.empty());
  EXPECT_TRUE(kept.empty());
  for (Parameter* p : model.Parameters()) ExpectGradient(p->name(), p->data(), Values(p->gradient()), loss);
}

TEST(GradientCheck, GptTied) {
  CheckLanguageModel<GptModel>(
      GptConfig{.layers = 2, .hidden = 6, .heads = 2, .vocab = 9, .sequence = 4, .ffn = 10, .dtype = DType::kF64}, 4);
}

TEST(GradientCheck, GptUntiedWithDropoutAndShortSequence) {
  CheckLanguageModel<GptModel>(GptConfig{.layers = 1,
                                         .hidden = 4,
                                         .heads = 1,
                                         .vocab = 7,
                                         .sequence = 5,
                                         .dropout = 0.2,
                                         .tied = false,
                                         .dtype = DType::kF64},
                               3);
}

TEST(GradientCheck, GptUnfusedWithStoredMasks) {
  CheckLanguageModel<GptModel>(GptConfig{.layers = 1,
                                         .hidden = 4,
                                         .heads = 2,
                                         .vocab = 7,
                                         .sequence = 4,
                                         .dropout = 0.2,
                                         .attention_dropout = 0.3,
                                         .unfused_attention = true,
                                         .masks = DropoutMasks::kStored,
                                         .dtype = DType::kF64},
                               4);
}

TEST(GradientCheck, GptWithoutPositionsOrBiases) {
  CheckLanguageModel<GptModel>(GptConfig{.layers = 1,
                                         .hidden = 6,
                                         .heads = 2,
                                         .vocab = 7,
                                         .sequence = 4,
                                         .positions = GptConfig::kNone,
                                         .embedding_norm = true,
                                         .biases = false,
                                         .dtype = DType::kF64},
                               4);
}

TEST(GradientCheck, GptLikeNemotron) {
  CheckLanguageModel<GptModel>(GptConfig{.layers = 2,
                                         .hidden = 8,
                                         .heads = 4,
                                         .vocab = 7,
                                         .sequence = 4,
                                         .ffn = 10,
                                         .positions = GptConfig::kRotary,
                                         .kv_heads = 2,
                                         .squared_relu = true,
                                         .layer_norm_1p = true,
                                         .biases = false,
                                         .tied = false,
                                         .dtype = DType::kF64},
                               4);
}

TEST(GradientCheck, GptWithParallelBlocks) {
  CheckLanguageModel<GptModel>(GptConfig{.layers = 2,
                                         .hidden = 8,
                                         .heads = 2,
                                         .vocab = 7,
                                         .sequence = 4,
                                         .dropout = 0.2,
                                         .positions = GptConfig::kRotary,
                                         .parallel_blocks = true,
                                         .dtype = DType::kF64},
                               3);
}

TEST(GradientCheck, LlamaUntiedAndTied) {
  LlamaConfig config{
      .layers = 2, .hidden = 8, .heads = 4, .vocab = 9, .kv_heads = 2, .ffn = 10, .sequence = 5, .dtype = DType::kF64};
  CheckLanguageModel<LlamaModel>(config, 4);
  config.tied = true;
  CheckLanguageModel<LlamaModel>(config, 5);
}

TEST(GradientCheck, SoftmaxCrossEntropy) {
  Cpu cpu;
  const Tensor logits = Random(cpu, Shape{2, 3, 5}, 16), targets = RandomIds(cpu, Shape{2, 3}, 5, 17);
  auto loss = [&] {
    Saved saved;
    return SoftmaxCrossEntropy::Forward(cpu.ctx, logits, targets, saved).data<double>()[0];
  };
  Tensor copy = cpu.New(logits.shape(), DType::kF64);
  std::copy_n(logits.data<double>(), logits.numel(), copy.data<double>());
  Saved saved;
  SoftmaxCrossEntropy::Forward(cpu.ctx, copy, targets, saved);
  const Tensor d = SoftmaxCrossEntropy::Backward(cpu.ctx, saved);
  EXPECT_EQ(d.address(), copy.address()) << "the gradient takes the place of the logits";
  EXPECT_EQ(d.shape(), logits.shape());
  EXPECT_TRUE(saved.empty());
  ExpectGradient("logits", logits, Values(d), loss);
}

}  // namespace gradient_check_test
}  // namespace twofold::nn
