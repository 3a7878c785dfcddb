#include "core/nn/activation.h"

namespace twofold::nn {

Tensor Activation::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  ctx.Launch(ops::ActivationForward{.kind = kind_, .x = x, .y = y});
  saved[kX] = x;
  return y;
}

Tensor Activation::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  const Tensor x = saved.Take(kX);
  Tensor dx = dy.unique() ? dy : ctx.Activation(dy.shape(), dy.dtype());
  ctx.Launch(ops::ActivationBackward{.kind = kind_, .x = x, .dy = dy, .dx = dx});
  return dx;
}

}  // namespace twofold::nn
