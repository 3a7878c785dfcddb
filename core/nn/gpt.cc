#include "core/nn/gpt.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace twofold::nn {
namespace {

constexpr double kDeviation = 0.02, kPositionDeviation = 0.01;
constexpr Init Normal(double deviation) { return {Init::kNormal, 0, deviation}; }

}  // namespace

BlockConfig GptBlock(const GptConfig& c) {
  return {.hidden = c.hidden,
          .heads = c.heads,
          .ffn = c.ffn_width(),
          .dropout = c.dropout,
          .masks = c.masks,
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
    Add("position_embedding", layers.Positions(c.sequence, c.hidden, c.dtype, Normal(kPositionDeviation)));
    Add("embedding_dropout", layers.MakeDropout(c.dropout, c.masks));
  }
  for (int64_t i = part.first_block; i < part.last_block; ++i) {
    Add(absl::StrCat("blocks.", i), std::make_unique<TransformerBlock>(GptBlock(c), layers));
  }
  if (part.head) {
    AddHead(layers, layers.MakeNorm(Norm::kLayerNorm, c.hidden, c.dtype, 1e-5),
            {.in = c.hidden, .out = c.vocab, .bias = false, .dtype = c.dtype, .weight_init = Normal(kDeviation)},
            c.tied, token_table);
  }
}

}  // namespace twofold::nn
