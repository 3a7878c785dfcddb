// One block of a pre-norm transformer, as in GPT-2 (Radford et al. 2019, section 2.3) and Llama (Touvron et al. 2023):
//     r = x + dropout(attention(norm1(x)))
//     y = r + dropout(mlp(norm2(r)))
#pragma once

#include "core/nn/attention.h"
#include "core/nn/composite.h"

namespace twofold::nn {

struct BlockConfig {
  int64_t hidden = 0, heads = 1, ffn = 0;
  int64_t kv_heads = 0;                           // 0: same as heads
  std::shared_ptr<RotaryTable> rotary = nullptr;  // null: no rotary embedding
  bool squared_relu = false, biases = true;       // of the feed-forward part; of both parts
  double dropout = 0;
  DropoutMasks masks = DropoutMasks::kRecomputed;
  Norm norm = Norm::kLayerNorm;
  double norm_eps = 1e-5;
  bool unfused_attention = false;
  double attention_dropout = 0;  // on the attention's probabilities; needs unfused_attention
  DType dtype = DType::kF32;
  Init weight_init, projection_init;  // for matrices, and for those whose output joins the residual stream

  bool StoresMasks() const { return dropout > 0 && masks == DropoutMasks::kStored; }
};

// The attention and the feed-forward part that `config` describes.
std::unique_ptr<Module> MakeAttention(const BlockConfig& config, Layers& layers);
std::unique_ptr<Module> MakeMlp(const BlockConfig& config, Layers& layers);

// x, y: [b, t, hidden].
class TransformerBlock : public Composite {
 public:
  explicit TransformerBlock(const BlockConfig& config, Layers& layers = OneRank());
  // With another attention and feed-forward part. Uses only the width, the norms, the branches' dropout and the dtype
  // of `config`.
  TransformerBlock(const BlockConfig& config, std::unique_ptr<Module> attention, std::unique_ptr<Module> mlp,
                   Layers& layers = OneRank());

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  void FillSaved(Context& ctx, const Tensor& x, Saved& saved) override;
  std::string_view kind() const override { return "transformer_block"; }

 protected:
  Tensor Propagate(const Backprop& back, Tensor dy) override;

 private:
  // The indices of the children that form a residual branch: y = x + dropout(inner(norm(x))).
  struct Branch {
    size_t norm, inner, dropout;
  };
  static constexpr Branch kAttention{0, 1, 2}, kMlp{3, 4, 5};
  // norm2(r), where r = x + dropout(attention(norm1(x)))
  Tensor FirstBranch(Context& ctx, const Tensor& x, Tensor& r, Saved& saved);
  Tensor Finish(const Branch& branch, Context& ctx, Tensor h, Saved& saved);  // dropout(inner(h))
  Tensor Propagate(const Branch& branch, const Backprop& back, Tensor dy);
  const bool stores_masks_;
};

}  // namespace twofold::nn
