// Causal self-attention (Vaswani et al. 2017), tiled: the t x t scores are never stored, so there is no
// dropout on them.
#pragma once

#include "core/nn/linear.h"
#include "core/nn/sequential.h"

namespace twofold::nn {

// The part without parameters. x: qkv [b, t, (heads + 2 * kv_heads) * head_dim]: of each position all
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

struct AttentionConfig {
  int64_t hidden = 0, heads = 1;
  DType dtype = DType::kF32;
  Init qkv_init, projection_init;  // of the weights; biases start at zero
};

// x, y: [b, t, hidden]. Children: "qkv" (Linear to 3 * hidden), "core", "projection" (Linear).
class CausalSelfAttention : public Sequential {
 public:
  explicit CausalSelfAttention(const AttentionConfig& config);
  std::string_view kind() const override { return "attention"; }
};

}  // namespace twofold::nn
