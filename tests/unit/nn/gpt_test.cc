// The model's structure: counts, names, initial values, parts.
#include "core/nn/gpt.h"

#include <algorithm>
#include <cmath>

#include "core/nn/mlp_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/language_models.h"
#include "tests/unit/nn/testing.h"

namespace twofold::nn {
namespace gpt_test {

using twofold::test::Cpu;
using twofold::test::ExpectMoments;
using twofold::test::Materialize;
using twofold::test::Values;

// Published counts: 124,439,808 and 354,823,168 parameters (gpt2 and gpt2-medium).
TEST(GptTest, PublishedParameterCounts) {
  GptModel small({.layers = 12, .hidden = 768, .heads = 12, .vocab = 50257, .sequence = 1024});
  EXPECT_EQ(small.ParameterCount(), 124439808);
  GptModel medium({.layers = 24, .hidden = 1024, .heads = 16, .vocab = 50257, .sequence = 1024});
  EXPECT_EQ(medium.ParameterCount(), 354823168);
  GptModel untied({.layers = 12, .hidden = 768, .heads = 12, .vocab = 50257, .sequence = 1024, .tied = false});
  EXPECT_EQ(untied.ParameterCount(), 124439808 + 50257 * 768);
}

// MPT-7B without the head's own matrix (llm-foundry states 6,658,859,008 parameters), BLOOM-176B (176,247,271,424, of
// which ALiBi has none) and Nemotron-4 15B, by the sizes that their papers give (the last: 15.6 billion).
TEST(GptTest, PublishedVariants) {
  const auto count = [](GptConfig config) { return GptModel(config).ParameterCount(); };
  EXPECT_EQ(count({.layers = 32, .hidden = 4096, .heads = 32, .vocab = 50368, .sequence = 2048}), 6658859008);
  EXPECT_EQ(count({.layers = 70,
                   .hidden = 14336,
                   .heads = 112,
                   .vocab = 250880,
                   .sequence = 2048,
                   .positions = GptConfig::kNone,
                   .embedding_norm = true}),
            176247271424);
  const int64_t h = 6144, kv = 8 * 128, ffn = 24576, vocab = 256000;
  EXPECT_EQ(count({.layers = 32,
                   .hidden = h,
                   .heads = 48,
                   .vocab = vocab,
                   .sequence = 4096,
                   .ffn = ffn,
                   .positions = GptConfig::kRotary,
                   .kv_heads = 8,
                   .squared_relu = true,
                   .layer_norm_1p = true,
                   .biases = false,
                   .tied = false}),
            32 * (2 * h * h + 2 * h * kv + 2 * h * ffn + 4 * h) + 2 * h + 2 * vocab * h);
}

// Two branches and one norm.
TEST(GptTest, ParallelBlocks) {
  GptModel model({.layers = 1,
                  .hidden = 4,
                  .heads = 2,
                  .vocab = 5,
                  .sequence = 3,
                  .positions = GptConfig::kNone,
                  .parallel_blocks = true,
                  .biases = false});
  model.Finalize();
  std::vector<std::string> names;
  for (const Parameter* p : model.Parameters()) names.push_back(p->name());
  EXPECT_THAT(names, ::testing::ElementsAre("token_embedding.weight", "blocks.0.norm.weight", "blocks.0.norm.bias",
                                            "blocks.0.attention.qkv.weight", "blocks.0.attention.projection.weight",
                                            "blocks.0.mlp.fc.weight", "blocks.0.mlp.projection.weight",
                                            "final_norm.weight", "final_norm.bias"));
}

// A norm whose gain is stored less 1 computes the same.
TEST(GptTest, LayerNorm1pComputesTheSame) {
  Cpu cpu;
  const Tensor ids = cpu.New(Shape{1, 3}, DType::kI32);
  for (int i = 0; i < 3; ++i) ids.data<int32_t>()[i] = i;
  const auto logits = [&](bool minus_one) {
    GptModel model({.layers = 2,
                    .hidden = 8,
                    .heads = 2,
                    .vocab = 5,
                    .sequence = 3,
                    .layer_norm_1p = minus_one,
                    .dtype = DType::kF64});
    model.Finalize();
    Materialize(cpu.ctx, model);
    for (Parameter* p : model.Parameters()) {
      if (p->role() != Role::kNorm || !p->name().ends_with("weight")) continue;
      EXPECT_EQ(Values(p->data())[0], minus_one ? 0 : 1) << p->name();
      for (int64_t i = 0; i < p->numel(); ++i) p->data().data<double>()[i] += 0.25 * static_cast<double>(i % 3);
    }
    Saved saved;
    const Tensor y = model.Forward(cpu.ctx, ids, saved);
    std::vector<double> values = Values(y);
    saved.Clear();
    return values;
  };
  EXPECT_THAT(logits(true), ::testing::Pointwise(::testing::DoubleNear(1e-12), logits(false)));
}

TEST(GptTest, NamesAndDecay) {
  GptModel model({.layers = 1, .hidden = 4, .heads = 2, .vocab = 5, .sequence = 3});
  model.Finalize();
  std::vector<std::string> names, decayed;
  for (const Parameter* p : model.Parameters()) {
    names.push_back(p->name());
    if (p->role() == Role::kMatrix || p->role() == Role::kEmbedding) decayed.push_back(p->name());
  }
  EXPECT_THAT(
      names, ::testing::ElementsAre(
                 "token_embedding.weight", "position_embedding.weight", "blocks.0.norm1.weight", "blocks.0.norm1.bias",
                 "blocks.0.attention.qkv.weight", "blocks.0.attention.qkv.bias", "blocks.0.attention.projection.weight",
                 "blocks.0.attention.projection.bias", "blocks.0.norm2.weight", "blocks.0.norm2.bias",
                 "blocks.0.mlp.fc.weight", "blocks.0.mlp.fc.bias", "blocks.0.mlp.projection.weight",
                 "blocks.0.mlp.projection.bias", "final_norm.weight", "final_norm.bias"));
  EXPECT_THAT(decayed, ::testing::ElementsAre("token_embedding.weight", "position_embedding.weight",
                                              "blocks.0.attention.qkv.weight", "blocks.0.attention.projection.weight",
                                              "blocks.0.mlp.fc.weight", "blocks.0.mlp.projection.weight"));
}

TEST(GptTest, InitialValues) {
  Cpu cpu;
  GptModel model({.layers = 2, .hidden = 64, .heads = 2, .vocab = 100, .sequence = 64, .dtype = DType::kF64});
  model.Finalize();
  Materialize(cpu.ctx, model);
  const auto expect = [&](std::string_view name, double mean, double deviation) {
    const std::vector<Parameter*> all = model.Parameters();
    const auto p = std::find_if(all.begin(), all.end(), [&](const Parameter* q) { return q->name() == name; });
    ASSERT_NE(p, all.end()) << name;
    ExpectMoments(**p, mean, deviation);
  };
  expect("token_embedding.weight", 0, 0.02);
  expect("position_embedding.weight", 0, 0.01);
  expect("blocks.1.attention.qkv.weight", 0, 0.02);
  expect("blocks.1.attention.projection.weight", 0, 0.01);  // 0.02 / sqrt(2 * 2)
  expect("blocks.0.mlp.fc.weight", 0, 0.02);
  expect("blocks.0.mlp.projection.weight", 0, 0.01);
  expect("blocks.0.mlp.fc.bias", 0, 0);
  expect("final_norm.weight", 1, 0);
  expect("final_norm.bias", 0, 0);
}

TEST(GptTest, PartsInARowAreTheWhole) {
  twofold::test::ExpectPartsInARowAreTheWhole<GptModel>(GptConfig{
      .layers = 3, .hidden = 8, .heads = 2, .vocab = 11, .sequence = 5, .dropout = 0.2, .dtype = DType::kF64});
}

TEST(MlpModelTest, CountAndInitialRange) {
  Cpu cpu;
  MlpModel model({.inputs = 25, .hidden = {16}, .classes = 10, .dtype = DType::kF64});
  EXPECT_EQ(model.ParameterCount(), 25 * 16 + 16 + 16 * 10 + 10);
  model.Finalize();
  Materialize(cpu.ctx, model);
  for (const Parameter* p : model.Parameters()) {
    const double bound = p->name().starts_with("layers.0") ? 0.2 : 0.25;
    double largest = 0;
    for (double v : Values(p->data())) largest = std::max(largest, std::abs(v));
    EXPECT_LE(largest, bound) << p->name();
    EXPECT_GT(largest, bound / 2) << p->name();
  }
}

}  // namespace gpt_test
}  // namespace twofold::nn
