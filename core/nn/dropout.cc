#include "core/nn/dropout.h"

namespace twofold::nn {

Dropout::Dropout(double p, std::string site) : p_(p), site_(std::move(site)) {
  TWOFOLD_CHECK(p >= 0 && p < 1, "dropout is a probability below 1");
}

Tensor Dropout::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  saved.key.reset();
  if (p_ == 0 || !ctx.training) return x;
  const std::string& site = site_.empty() ? path() : site_;
  TWOFOLD_CHECK(!site.empty(), "Finalize the root module, or give the dropout a site of its own");
  saved.key = ctx.RandomKey(site);
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  ctx.Launch(ops::Dropout{.x = x, .y = y, .p = p_, .key = *saved.key});
  return y;
}

Tensor Dropout::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  if (!saved.key) return dy;
  Tensor dx = ctx.Activation(dy.shape(), dy.dtype());
  ctx.Launch(ops::Dropout{.x = dy, .y = dx, .p = p_, .key = *saved.key});
  saved.key.reset();
  return dx;
}

}  // namespace twofold::nn
