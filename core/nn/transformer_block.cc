#include "core/nn/transformer_block.h"

#include <utility>

#include "core/nn/mlp.h"
#include "core/nn/residual_norm.h"

namespace twofold::nn {

std::unique_ptr<Module> MakeAttention(const BlockConfig& c, Layers& layers) {
  return std::make_unique<CausalSelfAttention>(AttentionConfig{.hidden = c.hidden,
                                                               .heads = c.heads,
                                                               .kv_heads = c.kv_heads,
                                                               .qkv_bias = c.biases,
                                                               .projection_bias = c.biases,
                                                               .rotary = c.rotary,
                                                               .unfused = c.unfused_attention,
                                                               .dropout = c.attention_dropout,
                                                               .masks = c.masks,
                                                               .dtype = c.dtype,
                                                               .qkv_init = c.weight_init,
                                                               .projection_init = c.projection_init},
                                               layers);
}

std::unique_ptr<Module> MakeMlp(const BlockConfig& c, Layers& layers) {
  return std::make_unique<Mlp>(MlpBlockConfig{.hidden = c.hidden,
                                              .ffn = c.ffn,
                                              .squared_relu = c.squared_relu,
                                              .biases = c.biases,
                                              .dtype = c.dtype,
                                              .fc_init = c.weight_init,
                                              .projection_init = c.projection_init},
                               layers);
}

TransformerBlock::TransformerBlock(const BlockConfig& c, Layers& layers)
    : TransformerBlock(c, MakeAttention(c, layers), MakeMlp(c, layers), layers) {}

TransformerBlock::TransformerBlock(const BlockConfig& c, std::unique_ptr<Module> attention, std::unique_ptr<Module> mlp,
                                   Layers& layers)
    : stores_masks_(c.StoresMasks()) {
  const auto norm = [&] { return layers.MakeNorm(c.norm, c.hidden, c.dtype, c.norm_eps); };
  AddChild("norm1", norm());
  AddChild("attention", std::move(attention));
  AddChild("dropout1", layers.MakeDropout(c.dropout, c.masks));
  AddChild("norm2", norm());
  AddChild("mlp", std::move(mlp));
  AddChild("dropout2", layers.MakeDropout(c.dropout, c.masks));
}

// The norm that follows the first branch adds that branch to the stream in its own pass. The second branch's sum is the
// block's output, which may go to another rank or be saved for recomputation, so it needs a separate pass.
Tensor TransformerBlock::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  Tensor r;
  Tensor h = FirstBranch(ctx, x, r, saved);
  h = Finish(kMlp, ctx, std::move(h), saved);
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  ctx.Launch(ops::Add{.a = r, .b = h, .out = y});
  return y;
}

void TransformerBlock::FillSaved(Context& ctx, const Tensor& x, Saved& saved) {
  Tensor r;
  const Tensor h = FirstBranch(ctx, x, r, saved);
  r = Tensor();
  FillBranch(kMlp.inner, kMlp.dropout, stores_masks_, ctx, h, saved);
}

Tensor TransformerBlock::FirstBranch(Context& ctx, const Tensor& x, Tensor& r, Saved& saved) {
  Tensor h = Apply(kAttention.norm, ctx, x, saved);
  r = Finish(kAttention, ctx, std::move(h), saved);
  h = ForwardOfSum(*children()[kMlp.norm].module, ctx, x, r, saved.child(kMlp.norm));
  if (!ctx.for_backward) saved.child(kMlp.norm).Clear();
  return h;
}

Tensor TransformerBlock::Finish(const Branch& branch, Context& ctx, Tensor h, Saved& saved) {
  h = Apply(branch.inner, ctx, h, saved);
  return Apply(branch.dropout, ctx, std::exchange(h, Tensor()), saved);
}

Tensor TransformerBlock::Propagate(const Backprop& back, Tensor dy) {
  Tensor dr = Propagate(kMlp, back, std::move(dy));
  return Propagate(kAttention, back, std::move(dr));
}

// dx = dy + d(branch)
Tensor TransformerBlock::Propagate(const Branch& branch, const Backprop& back, Tensor dy) {
  Tensor dx = back(branch.dropout, dy);
  dx = back(branch.inner, std::move(dx));
  return back(branch.norm, std::move(dx), dy);
}

}  // namespace twofold::nn
