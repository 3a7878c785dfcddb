// GPT-2 (Radford et al. 2019): token and position embeddings, pre-norm blocks, a final norm, a language-model
// head; and models that differ from it in a few points: GPT-J and GPT-NeoX (rotary positions, parallel branches), BLOOM
// (a norm after the embeddings), Nemotron (squared ReLU, LayerNorm1p, no biases, grouped queries).
//
// Initial values are those of the published code (github.com/openai/gpt-2, src/model.py): normal with deviation 0.02
// for matrices and token embeddings and 0.01 for position embeddings; biases 0; norm weights 1 and biases 0. As in
// section 2.3 of the paper, matrices whose output joins the residual stream are scaled by 1/sqrt(2 * layers).
#pragma once

#include "core/nn/language_model.h"
#include "core/nn/transformer_block.h"

namespace twofold::nn {

struct GptConfig {
  int64_t layers = 0, hidden = 0, heads = 1, vocab = 0;
  int64_t sequence = 0;          // number of positions
  int64_t ffn = 0;               // 0: 4 * hidden
  double dropout = 0;            // after the embeddings and on both branches of each block
  double attention_dropout = 0;  // on the attention's probabilities; needs unfused_attention
  bool unfused_attention = false;
  DropoutMasks masks = DropoutMasks::kRecomputed;
  enum Positions { kLearned, kNone, kRotary } positions = kLearned;
  double rope_theta = 10000;     // kRotary
  int64_t kv_heads = 0;          // 0: same as heads
  bool squared_relu = false;     // instead of GELU
  bool parallel_blocks = false;  // parallel_block.h
  bool layer_norm_1p = false;    // Gain::kMinusOne (layer_norm.h)
  bool embedding_norm = false;
  bool biases = true;  // of linear layers
  bool tied = true;    // the head uses the token embedding's table; else its own matrix, without bias
  DType dtype = DType::kF32;

  int64_t ffn_width() const { return ffn > 0 ? ffn : 4 * hidden; }
  int64_t kv() const { return kv_heads > 0 ? kv_heads : heads; }
  Norm norm() const { return layer_norm_1p ? Norm::kLayerNorm1p : Norm::kLayerNorm; }
};

// The configuration of every block, initial values included. `rotary` is shared by the blocks of a model; null unless
// positions are rotary.
BlockConfig GptBlock(const GptConfig& config, std::shared_ptr<RotaryTable> rotary = nullptr);

// x: token ids [b, t] (I32 or U8), t <= sequence, or hidden states [b, t, hidden] if the part has no embedding. y:
// logits [b, t, vocab], or hidden states if the part has no head. Children, in order: "token_embedding",
// "position_embedding" (if learned), "embedding_norm" (if any), "embedding_dropout", "blocks.<i>", "final_norm",
// "head".
class GptModel : public LanguageModel {
 public:
  explicit GptModel(const GptConfig& config) : GptModel(config, ModelPart::Whole(config.layers)) {}
  GptModel(const GptConfig& config, const ModelPart& part, Layers& layers = OneRank());
  std::string_view kind() const override { return "gpt"; }
  const GptConfig& config() const { return config_; }

 private:
  GptConfig config_;
};

}  // namespace twofold::nn
