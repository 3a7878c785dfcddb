#include "core/nn/transformer_block.h"

#include "core/nn/mlp.h"

namespace twofold::nn {

TransformerBlock::TransformerBlock(const BlockConfig& c, Layers& layers)
    : TransformerBlock(
          c,
          std::make_unique<CausalSelfAttention>(AttentionConfig{.hidden = c.hidden,
                                                                .heads = c.heads,
                                                                .unfused = c.unfused_attention,
                                                                .dropout = c.attention_dropout,
                                                                .masks = c.masks,
                                                                .dtype = c.dtype,
                                                                .qkv_init = c.weight_init,
                                                                .projection_init = c.projection_init},
                                                layers),
          std::make_unique<Mlp>(MlpBlockConfig{.hidden = c.hidden,
                                               .ffn = c.ffn,
                                               .dtype = c.dtype,
                                               .fc_init = c.weight_init,
                                               .projection_init = c.projection_init},
                                layers),
          layers) {}

TransformerBlock::TransformerBlock(const BlockConfig& c, std::unique_ptr<Module> attention,
                                   std::unique_ptr<Module> mlp, Layers& layers) {
  const auto norm = [&] { return layers.MakeNorm(c.norm, c.hidden, c.dtype, c.norm_eps); };
  AddChild("norm1", norm());
  AddChild("attention", std::move(attention));
  AddChild("dropout1", layers.MakeDropout(c.dropout, c.masks));
  AddChild("norm2", norm());
  AddChild("mlp", std::move(mlp));
  AddChild("dropout2", layers.MakeDropout(c.dropout, c.masks));
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
