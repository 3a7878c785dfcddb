// Llama (Touvron et al. 2023, with grouped-query attention as in Llama 2): a token embedding, pre-norm blocks of RMS
// norm, rotary attention and SwiGLU, a final norm, a language-model head. There are no biases, except optionally those
// of queries, keys and values. Mistral's models have this form as long as no sequence is longer than their window.
//
// Initial values (Llama's are not published): normal with deviation 0.02 for matrices and token embeddings; matrices
// whose output joins the residual stream are scaled by 1/sqrt(2 * layers), as in GPT-2 (Radford et al. 2019, section
// 2.3); norms 1.
//
// Mixtral (Jiang et al. 2024) is a Llama whose feed-forward parts are mixtures of experts (mixture.h).
#pragma once

#include "core/nn/language_model.h"
#include "core/nn/mixture.h"
#include "core/nn/transformer_block.h"

namespace twofold::nn {

// Which blocks have experts, and their configuration (mixture.h). Each expert is `ffn` wide.
struct LlamaExperts {
  int64_t experts = 0, top_k = 2;  // experts = 0: no block has experts
  bool dropless = false;
  double capacity_factor = 1.25, aux_loss = 0;
  int64_t every = 1;  // the last of each `every` blocks has experts
  std::shared_ptr<const AssumedRouting> assumed = nullptr;
  bool At(int64_t block) const { return experts > 0 && (block + 1) % every == 0; }  // blocks count from 0
};

struct LlamaConfig {
  int64_t layers = 0, hidden = 0, heads = 1, vocab = 0;
  int64_t kv_heads = 0;  // 0: same as heads
  int64_t head_dim = 0;  // 0: hidden / heads
  int64_t ffn = 0;
  int64_t sequence = 0;  // positions in the rotary table
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  double norm_eps = 1e-5;
  bool qkv_bias = false;
  bool tied = false;  // the head uses the token embedding's table
  bool unfused_attention = false;
  LlamaExperts experts;
  DType dtype = DType::kF32;

  int64_t kv() const { return kv_heads > 0 ? kv_heads : heads; }
  int64_t head_width() const { return head_dim > 0 ? head_dim : hidden / heads; }
};

// Block number `block` alone. `rotary` is shared by the blocks of a model.
std::unique_ptr<TransformerBlock> MakeLlamaBlock(const LlamaConfig& config, std::shared_ptr<RotaryTable> rotary,
                                                 Layers& layers = OneRank(), int64_t block = 0);
MixtureConfig MixtureOf(const LlamaConfig& config, int64_t block = 0);  // of a block that has experts
std::shared_ptr<RotaryTable> MakeRotaryTable(const LlamaConfig& config);

// x: token ids [b, t] (I32 or U8), t <= sequence, or hidden states [b, t, hidden] if the part has no embedding. y:
// logits [b, t, vocab], or hidden states if the part has no head. Children, in order: "token_embedding", "blocks.<i>",
// "final_norm", "head".
class LlamaModel : public LanguageModel {
 public:
  explicit LlamaModel(const LlamaConfig& config) : LlamaModel(config, ModelPart::Whole(config.layers)) {}
  LlamaModel(const LlamaConfig& config, const ModelPart& part, Layers& layers = OneRank());
  std::string_view kind() const override { return "llama"; }
  const LlamaConfig& config() const { return config_; }

 private:
  LlamaConfig config_;
};

}  // namespace twofold::nn
