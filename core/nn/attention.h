// Causal self-attention (Vaswani et al. 2017), with a head of keys and values for every query head or for a group of them
// (Ainslie et al. 2023). Tiled: the t x t scores are never stored, so there is no dropout on them. Unfused, as frameworks
// computed it before tiled kernels: they are.
#pragma once

#include "core/nn/layers.h"
#include "core/nn/sequential.h"

namespace twofold::nn {

// The part without parameters, tiled. x: qkv [b, t, (heads + 2 * kv_heads) * head_dim]: of each position all
// queries, then all keys, then all values; y: [b, t, heads * head_dim].
class AttentionCore : public Module {
 public:
  explicit AttentionCore(int64_t heads) : AttentionCore(heads, heads) {}
  AttentionCore(int64_t heads, int64_t kv_heads) : heads_(heads), kv_heads_(kv_heads) {}

  Tensor Forward(Context& ctx, const Tensor& qkv, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "attention_core"; }

 private:
  enum Slot { kQkv, kOut, kLse };
  int64_t heads_, kv_heads_;
};

// The same, unfused: scores = q k^T / sqrt(head_dim), their softmax in place, dropout, times v. Keeps qkv, the
// probabilities [b, heads, t, t] and, with dropout, what was left of them. Child: "dropout".
class UnfusedAttentionCore : public Module {
 public:
  // `places`: of the probabilities, where these heads are a part of the model's.
  UnfusedAttentionCore(int64_t heads, int64_t kv_heads, double dropout = 0, DropoutMasks masks = DropoutMasks::kRecomputed,
                       Placing places = nullptr);

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
  int64_t kv_heads = 0;  // 0: as many as heads; divides heads
  int64_t head_dim = 0;  // 0: hidden / heads
  bool qkv_bias = true, projection_bias = true;
  std::shared_ptr<RotaryTable> rotary;  // null: positions are none of its business
  bool unfused = false;
  double dropout = 0;  // of the probabilities; unfused alone has it
  DropoutMasks masks = DropoutMasks::kRecomputed;
  DType dtype = DType::kF32;
  Init qkv_init, projection_init;  // of the weights; biases start at zero
};

// x, y: [b, t, hidden]. Children: "qkv" (to (heads + 2 * kv_heads) * head_dim), "rotary" (if any), "core", "projection"; made
// by `layers`.
class CausalSelfAttention : public Sequential {
 public:
  explicit CausalSelfAttention(const AttentionConfig& config, Layers& layers = OneRank());
  std::string_view kind() const override { return "attention"; }
};

}  // namespace twofold::nn
