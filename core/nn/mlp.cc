#include "core/nn/mlp.h"

#include "core/nn/activation.h"
#include "core/nn/gelu_product.h"

namespace twofold::nn {

Mlp::Mlp(const MlpBlockConfig& c, Layers& layers) {
  Add("fc", layers.Column({.in = c.hidden, .out = c.ffn, .bias = c.biases, .dtype = c.dtype, .weight_init = c.fc_init},
                          {c.ffn}));
  if (c.squared_relu)
    Add("squared_relu", std::make_unique<SquaredRelu>());
  else
    Add("gelu", std::make_unique<Gelu>());
  Add("projection",
      layers.Row({.in = c.ffn, .out = c.hidden, .bias = c.biases, .dtype = c.dtype, .weight_init = c.projection_init}));
}

Tensor Mlp::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  auto* fc = FusedFc();
  if (fc == nullptr) return Sequential::Forward(ctx, x, saved);
  return Apply(kProjection, ctx, Activated(*fc, ctx, x, saved), saved);
}

void Mlp::FillSaved(Context& ctx, const Tensor& x, Saved& saved) {
  auto* fc = FusedFc();
  if (fc == nullptr) return Sequential::FillSaved(ctx, x, saved);
  const Tensor h = Activated(*fc, ctx, x, saved);
  Fill(kProjection, ctx, h, saved);
}

Tensor Mlp::Activated(ProductThenGelu& fc, Context& ctx, const Tensor& x, Saved& saved) {
  const InModule in(ctx, *children()[kFc].module);
  Tensor before;
  Tensor h = fc.ForwardGelu(ctx, x, before, saved.child(kFc));
  if (ctx.for_backward)
    Gelu::Keep(saved.child(kGelu), std::move(before));
  else
    saved.child(kFc).Clear();
  return h;
}

ProductThenGelu* Mlp::FusedFc() const { return As<Gelu>(kGelu) == nullptr ? nullptr : As<ProductThenGelu>(kFc); }

Tensor Mlp::Propagate(const Backprop& back, Tensor dy) {
  auto* projection = As<GeluThenProduct>(kProjection);
  if (projection == nullptr || As<Gelu>(kGelu) == nullptr) return Sequential::Propagate(back, std::move(dy));
  Tensor dh;
  {
    const InModule in(back.ctx, *children()[kProjection].module);
    dh = projection->BackwardInputGelu(back.ctx, std::move(dy), Gelu::Take(back.saved.child(kGelu)),
                                       back.saved.child(kProjection));
  }
  back.EndOf(kProjection);
  return back(kFc, std::move(dh));
}

}  // namespace twofold::nn
