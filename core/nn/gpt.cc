#include "core/nn/gpt.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/nn/dropout.h"
#include "core/nn/embedding.h"
#include "core/nn/layer_norm.h"
#include "core/nn/linear.h"
#include "core/nn/position_embedding.h"

namespace twofold::nn {
namespace {

constexpr double kDeviation = 0.02, kPositionDeviation = 0.01;
constexpr Init Normal(double deviation) { return {Init::kNormal, 0, deviation}; }

}  // namespace

BlockConfig GptBlock(const GptConfig& c) {
  return {.hidden = c.hidden, .heads = c.heads, .ffn = c.ffn_width(), .dropout = c.dropout, .dtype = c.dtype,
          .weight_init = Normal(kDeviation),
          .projection_init = Normal(kDeviation / std::sqrt(2.0 * static_cast<double>(c.layers)))};
}

GptModel::GptModel(const GptConfig& c, const GptPart& part) : config_(c) {
  TWOFOLD_CHECK(0 <= part.first_block && part.first_block <= part.last_block && part.last_block <= c.layers,
                "a part is a range of the model's blocks");
  Parameter* token_table = nullptr;
  if (part.embedding) {
    token_table =
        Add("token_embedding", std::make_unique<Embedding>(c.vocab, c.hidden, c.dtype, Normal(kDeviation)))
            ->weight();
    Add("position_embedding",
        std::make_unique<PositionEmbedding>(c.sequence, c.hidden, c.dtype, Normal(kPositionDeviation)));
    Add("embedding_dropout", std::make_unique<Dropout>(c.dropout));
  }
  for (int64_t i = part.first_block; i < part.last_block; ++i) {
    Add(absl::StrCat("blocks.", i), std::make_unique<TransformerBlock>(GptBlock(c)));
  }
  if (part.head) AddHead(token_table);
}

void GptModel::AddHead(Parameter* token_table) {
  const LinearConfig linear{.in = config_.hidden, .out = config_.vocab, .bias = false, .dtype = config_.dtype,
                            .weight_init = Normal(kDeviation)};
  Add("final_norm", std::make_unique<LayerNorm>(config_.hidden, config_.dtype));
  if (config_.tied && token_table != nullptr) {
    Add("head", std::make_unique<Linear>(linear, token_table));
  } else {  // under the embedding's name, a tied head starts from the embedding's values
    Add(config_.tied ? "token_embedding" : "head", std::make_unique<Linear>(linear));
  }
}

}  // namespace twofold::nn
