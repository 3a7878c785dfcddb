// Norms on a residual stream. In front of one a branch joins the stream, and in backward the gradient of the stream joins that
// of the norm: sums that would each be a pass over memory by themselves, and that a norm takes in its own.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

class ResidualNorm : public Module {
 public:
  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) final { return Normalise(ctx, x, Tensor(), x, saved); }
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) final { return InputGradient(ctx, std::move(dy), Tensor(), saved); }

  // Forward of x + branch; `branch` becomes that sum, in its own memory if nobody else holds it.
  Tensor ForwardOfSum(Context& ctx, const Tensor& x, Tensor& branch, Saved& saved);
  // BackwardInput, plus the gradient that came past the norm.
  Tensor BackwardInputPlus(Context& ctx, Tensor dy, const Tensor& past, Saved& saved) {
    return InputGradient(ctx, std::move(dy), past, saved);
  }

 protected:
  // Of x + branch, which goes to `sum`; without a branch `sum` is x.
  virtual Tensor Normalise(Context& ctx, const Tensor& x, const Tensor& branch, const Tensor& sum, Saved& saved) = 0;
  virtual Tensor InputGradient(Context& ctx, Tensor dy, const Tensor& past, Saved& saved) = 0;
};

// Of any module in a norm's place the same: one that is no ResidualNorm (a wrapper around one) does it in two passes.
Tensor ForwardOfSum(Module& norm, Context& ctx, const Tensor& x, Tensor& branch, Saved& saved);

}  // namespace twofold::nn
