#include "core/nn/gpt.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/nn/parallel_block.h"

namespace twofold::nn {
namespace {

constexpr double kDeviation = 0.02, kPositionDeviation = 0.01, kNormEps = 1e-5;
constexpr Init Normal(double deviation) { return {Init::kNormal, 0, deviation}; }

std::shared_ptr<RotaryTable> RotaryOf(const GptConfig& c) {
  if (c.positions != GptConfig::kRotary) return nullptr;
  const RopeConfig rope{.head_dim = c.hidden / c.heads, .theta = c.rope_theta, .scaling = {}};
  return std::make_shared<RotaryTable>(rope, c.sequence, c.dtype);
}

}  // namespace

BlockConfig GptBlock(const GptConfig& c, std::shared_ptr<RotaryTable> rotary) {
  return {.hidden = c.hidden,
          .heads = c.heads,
          .ffn = c.ffn_width(),
          .kv_heads = c.kv_heads,
          .rotary = std::move(rotary),
          .squared_relu = c.squared_relu,
          .biases = c.biases,
          .dropout = c.dropout,
          .masks = c.masks,
          .norm = c.norm(),
          .unfused_attention = c.unfused_attention,
          .attention_dropout = c.attention_dropout,
          .dtype = c.dtype,
          .weight_init = Normal(kDeviation),
          .projection_init = Normal(kDeviation / std::sqrt(2.0 * static_cast<double>(c.layers)))};
}

GptModel::GptModel(const GptConfig& c, const ModelPart& part, Layers& layers) : config_(c) {
  part.CheckWithin(c.layers);
  Parameter* token_table = nullptr;
  if (part.embedding) {
    token_table = AddTokenEmbedding(layers, c.vocab, c.hidden, c.dtype, Normal(kDeviation), c.tied && !part.head);
    if (c.positions == GptConfig::kLearned)
      Add("position_embedding", layers.Positions(c.sequence, c.hidden, c.dtype, Normal(kPositionDeviation)));
    if (c.embedding_norm) Add("embedding_norm", layers.MakeNorm(c.norm(), c.hidden, c.dtype, kNormEps));
    Add("embedding_dropout", layers.MakeDropout(c.dropout, c.masks));
  }
  const BlockConfig block = GptBlock(c, RotaryOf(c));
  for (int64_t i = part.first_block; i < part.last_block; ++i) {
    const std::string name = absl::StrCat("blocks.", i);
    if (c.parallel_blocks)
      Add(name, std::make_unique<ParallelBlock>(block, layers));
    else
      Add(name, std::make_unique<TransformerBlock>(block, layers));
  }
  if (part.head) {
    AddHead(layers, layers.MakeNorm(c.norm(), c.hidden, c.dtype, kNormEps),
            {.in = c.hidden, .out = c.vocab, .bias = false, .dtype = c.dtype, .weight_init = Normal(kDeviation)},
            c.tied, token_table);
  }
}

}  // namespace twofold::nn
