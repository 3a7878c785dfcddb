// A transformer block whose two branches read the same norm, so that neither waits for the other (Wang and Komatsuzaki
// 2021, "GPT-J-6B"; Chowdhery et al. 2022, "PaLM", section 2):
//     h = norm(x);  y = x + dropout(attention(h)) + dropout(mlp(h))
#pragma once

#include "core/nn/transformer_block.h"

namespace twofold::nn {

// x, y: [b, t, hidden]. Children, in order: "norm", "attention", "dropout1", "mlp", "dropout2". With tensor parallelism
// each branch has all-reduces of its own: they are not joined.
class ParallelBlock : public Composite {
 public:
  explicit ParallelBlock(const BlockConfig& config, Layers& layers = OneRank());
  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  void FillSaved(Context& ctx, const Tensor& x, Saved& saved) override;
  std::string_view kind() const override { return "transformer_block"; }

 protected:
  Tensor Propagate(const Backprop& back, Tensor dy) override;

 private:
  enum Child : size_t { kNorm, kAttention, kDropout1, kMlp, kDropout2 };
  Tensor Branch(size_t inner, size_t dropout, Context& ctx, const Tensor& h, Saved& saved);
  const bool stores_masks_;
};

}  // namespace twofold::nn
