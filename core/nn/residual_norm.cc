#include "core/nn/residual_norm.h"

namespace twofold::nn {
namespace {

// A tensor that may overwrite `t`'s values: `t` itself if it has no other owner, else a new one.
Tensor PlaceOf(Context& ctx, const Tensor& t) { return t.unique() ? t : ctx.Activation(t.shape(), t.dtype()); }

}  // namespace

Tensor ResidualNorm::ForwardOfSum(Context& ctx, const Tensor& x, Tensor& branch, Saved& saved) {
  const Tensor sum = PlaceOf(ctx, branch);
  Tensor y = Normalise(ctx, x, branch, sum, saved);
  branch = sum;
  return y;
}

Tensor ForwardOfSum(Module& norm, Context& ctx, const Tensor& x, Tensor& branch, Saved& saved) {
  const InModule in(ctx, norm);
  if (auto* fused = dynamic_cast<ResidualNorm*>(&norm)) return fused->ForwardOfSum(ctx, x, branch, saved);
  const Tensor sum = PlaceOf(ctx, branch);
  ctx.Launch(ops::Add{.a = x, .b = branch, .out = sum});
  branch = sum;
  return norm.Forward(ctx, sum, saved);
}

}  // namespace twofold::nn
