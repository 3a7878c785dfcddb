#include "core/nn/parallel_block.h"

#include <utility>

namespace twofold::nn {

ParallelBlock::ParallelBlock(const BlockConfig& c, Layers& layers) : stores_masks_(c.StoresMasks()) {
  AddChild("norm", layers.MakeNorm(c.norm, c.hidden, c.dtype, c.norm_eps));
  AddChild("attention", MakeAttention(c, layers));
  AddChild("dropout1", layers.MakeDropout(c.dropout, c.masks));
  AddChild("mlp", nn::MakeMlp(c, layers));
  AddChild("dropout2", layers.MakeDropout(c.dropout, c.masks));
}

Tensor ParallelBlock::Branch(size_t inner, size_t dropout, Context& ctx, const Tensor& h, Saved& saved) {
  Tensor branch = Apply(inner, ctx, h, saved);
  return Apply(dropout, ctx, std::exchange(branch, Tensor()), saved);
}

Tensor ParallelBlock::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  Tensor h = Apply(kNorm, ctx, x, saved);
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  ctx.Launch(ops::Add{.a = x, .b = Branch(kAttention, kDropout1, ctx, h, saved), .out = y});
  const Tensor second = Branch(kMlp, kDropout2, ctx, std::exchange(h, Tensor()), saved);
  ctx.Launch(ops::Add{.a = y, .b = second, .out = y});
  return y;
}

void ParallelBlock::FillSaved(Context& ctx, const Tensor& x, Saved& saved) {
  const Tensor h = Apply(kNorm, ctx, x, saved);
  FillBranch(kAttention, kDropout1, stores_masks_, ctx, h, saved);
  FillBranch(kMlp, kDropout2, stores_masks_, ctx, h, saved);
}

// dx = dy + d(norm), where the norm's output gets the gradients of both branches.
Tensor ParallelBlock::Propagate(const Backprop& back, Tensor dy) {
  const auto through = [&](size_t dropout, size_t inner) {
    Tensor d = back(dropout, dy);
    return back(inner, std::move(d));
  };
  const Tensor of_mlp = through(kDropout2, kMlp);
  Tensor of_attention = through(kDropout1, kAttention);
  Tensor dh = of_attention.unique() ? of_attention : back.ctx.Activation(of_mlp.shape(), of_mlp.dtype());
  back.ctx.Launch(ops::Add{.a = of_attention, .b = of_mlp, .out = dh});
  of_attention = Tensor();
  return back(kNorm, std::move(dh), dy);
}

}  // namespace twofold::nn
