// Causal self-attention (Vaswani et al. 2017): multi-head, or grouped-query with one head of keys and values for each
// group of query heads (Ainslie et al. 2023). The tiled form never stores the t x t scores, so it has no dropout on
// them. The unfused form stores them, as frameworks did before tiled kernels.
#pragma once

#include "core/nn/layers.h"
#include "core/nn/sequential.h"

namespace twofold::nn {

// The tiled core, without parameters. x: qkv [b, t, (heads + 2 * kv_heads) * head_dim], which holds for each position
// all queries, then all keys, then all values. y: [b, t, heads * head_dim].
class AttentionCore : public Module {
 public:
  explicit AttentionCore(int64_t heads) : AttentionCore(heads, heads) {}
  // `score_limit`: of ops::AttentionBackward.
  AttentionCore(int64_t heads, int64_t kv_heads, int64_t score_limit = 0)
      : heads_(heads), kv_heads_(kv_heads), score_limit_(score_limit) {}

  Tensor Forward(Context& ctx, const Tensor& qkv, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "attention_core"; }

 private:
  enum Slot { kQkv, kOut, kLse };
  int64_t heads_, kv_heads_, score_limit_;
};

// The unfused core: scores = q k^T / sqrt(head_dim), softmax in place, dropout, product with v. Saves qkv, the
// probabilities [b, heads, t, t] and, with dropout, the probabilities after it. Child: "dropout".
class UnfusedAttentionCore : public Module {
 public:
  // `places`: indices of the probabilities in the whole model, if this rank has only some of its heads.
  UnfusedAttentionCore(int64_t heads, int64_t kv_heads, double dropout = 0,
                       DropoutMasks masks = DropoutMasks::kRecomputed, Placing places = nullptr);

  Tensor Forward(Context& ctx, const Tensor& qkv, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "attention_core"; }

 private:
  enum Slot { kQkv, kProbabilities, kDropped };
  int64_t heads_, kv_heads_;
  Module* dropout() const { return children()[0].module; }
};

struct AttentionConfig {
  int64_t hidden = 0, heads = 1;
  int64_t kv_heads = 0;  // must divide heads; 0: same as heads
  int64_t head_dim = 0;  // 0: hidden / heads
  bool qkv_bias = true, projection_bias = true;
  std::shared_ptr<RotaryTable> rotary;  // null: no rotary embedding
  bool unfused = false;
  double dropout = 0;  // on the probabilities; only with `unfused`
  DropoutMasks masks = DropoutMasks::kRecomputed;
  DType dtype = DType::kF32;
  Init qkv_init, projection_init;  // of the weights; biases start at zero
};

// x, y: [b, t, hidden]. Children, made by `layers`: "qkv" (to (heads + 2 * kv_heads) * head_dim), "rotary" (if any),
// "core", "projection".
class CausalSelfAttention : public Sequential {
 public:
  explicit CausalSelfAttention(const AttentionConfig& config, Layers& layers = OneRank());
  std::string_view kind() const override { return "attention"; }
};

}  // namespace twofold::nn
