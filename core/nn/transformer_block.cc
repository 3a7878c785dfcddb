#include "core/nn/transformer_block.h"

#include "core/nn/layer_norm.h"
#include "core/nn/mlp.h"
#include "core/nn/rms_norm.h"

namespace twofold::nn {
namespace {

std::unique_ptr<Module> MakeNorm(const BlockConfig& c) {
  if (c.norm == BlockConfig::kRmsNorm) return std::make_unique<RmsNorm>(c.hidden, c.dtype, c.norm_eps);
  return std::make_unique<LayerNorm>(c.hidden, c.dtype, c.norm_eps);
}

}  // namespace

TransformerBlock::TransformerBlock(const BlockConfig& c)
    : TransformerBlock(
          c,
          std::make_unique<CausalSelfAttention>(AttentionConfig{.hidden = c.hidden,
                                                                .heads = c.heads,
                                                                .unfused = c.unfused_attention,
                                                                .dropout = c.attention_dropout,
                                                                .masks = c.masks,
                                                                .dtype = c.dtype,
                                                                .qkv_init = c.weight_init,
                                                                .projection_init = c.projection_init}),
          std::make_unique<Mlp>(MlpBlockConfig{.hidden = c.hidden,
                                               .ffn = c.ffn,
                                               .dtype = c.dtype,
                                               .fc_init = c.weight_init,
                                               .projection_init = c.projection_init})) {}

TransformerBlock::TransformerBlock(const BlockConfig& c, std::unique_ptr<Module> attention,
                                   std::unique_ptr<Module> mlp) {
  AddChild("norm1", MakeNorm(c));
  AddChild("attention", std::move(attention));
  AddChild("dropout1", std::make_unique<Dropout>(c.dropout, c.masks));
  AddChild("norm2", MakeNorm(c));
  AddChild("mlp", std::move(mlp));
  AddChild("dropout2", std::make_unique<Dropout>(c.dropout, c.masks));
}

Tensor TransformerBlock::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  const Tensor r = Forward(kAttention, ctx, x, saved);
  return Forward(kMlp, ctx, r, saved);
}

Tensor TransformerBlock::Forward(const Branch& branch, Context& ctx, const Tensor& x, Saved& saved) {
  Tensor h = Apply(branch.norm, ctx, x, saved);
  h = Apply(branch.inner, ctx, h, saved);
  h = Apply(branch.dropout, ctx, h, saved);
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  ctx.Launch(ops::Add{.a = x, .b = h, .out = y});
  return y;
}

Tensor TransformerBlock::Propagate(const Backprop& back, Tensor dy) {
  Tensor dr = Propagate(kMlp, back, std::move(dy));
  return Propagate(kAttention, back, std::move(dr));
}

// dx = dy + d(branch): the norm's gradient is a tensor of its own, so the sum is taken in its place.
Tensor TransformerBlock::Propagate(const Branch& branch, const Backprop& back, Tensor dy) {
  Tensor dx = back(branch.dropout, dy);
  dx = back(branch.inner, std::move(dx));
  dx = back(branch.norm, std::move(dx));
  back.ctx.Launch(ops::AddTo{.in = dy, .out = dx});
  return dx;
}

}  // namespace twofold::nn
