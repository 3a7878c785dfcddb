#include "core/nn/dropout.h"

namespace twofold::nn {

Dropout::Dropout(double p, DropoutMasks masks, std::string site, Placing places)
    : p_(p), masks_(masks), site_(std::move(site)), places_(std::move(places)) {
  TWOFOLD_CHECK(p >= 0 && p < 1, "dropout is a probability below 1");
}

PhiloxKey Dropout::RandomKey(const Context& ctx) const {
  const std::string& site = site_.empty() ? path() : site_;
  TWOFOLD_CHECK(!site.empty(), "Finalize the root module, or give the dropout a site of its own");
  return ctx.RandomKey(site);
}

Tensor Dropout::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  saved.key.reset();
  if (p_ == 0 || !ctx.training) return x;
  saved.key = RandomKey(ctx);
  const ops::IndexMap where = PlaceOf(places_, x);
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  if (masks_ == DropoutMasks::kStored) {
    saved[kMask] = ctx.Activation(Shape{x.numel()}, DType::kU8);
    ctx.Launch(
        ops::MaskedDropoutForward{.x = x, .y = y, .mask = saved[kMask], .p = p_, .key = *saved.key, .where = where});
  } else {
    ctx.Launch(ops::Dropout{.x = x, .y = y, .p = p_, .key = *saved.key, .where = where});
  }
  return y;
}

void Dropout::FillSaved(Context& ctx, const Tensor& x, Saved& saved) {
  if (masks_ == DropoutMasks::kStored) {
    Forward(ctx, x, saved);
    return;
  }
  saved.key.reset();
  if (p_ > 0 && ctx.training) saved.key = RandomKey(ctx);
}

Tensor Dropout::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  if (!saved.key) return dy;
  Tensor dx = ctx.Activation(dy.shape(), dy.dtype());
  if (masks_ == DropoutMasks::kStored) {
    const Tensor mask = saved.Take(kMask);
    ctx.Launch(ops::MaskedDropoutBackward{.dy = dy, .mask = mask, .dx = dx, .p = p_});
  } else {
    ctx.Launch(ops::Dropout{.x = dy, .y = dx, .p = p_, .key = *saved.key, .where = PlaceOf(places_, dy)});
  }
  saved.key.reset();
  return dx;
}

}  // namespace twofold::nn
