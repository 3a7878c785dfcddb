// Norms on a residual stream. Before the norm a branch is added to the stream; in backward the gradient of the stream
// is added to that of the norm. Each sum would be a separate pass over memory; these norms fuse it into their own.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

class ResidualNorm : public Module {
 public:
  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) final { return Normalise(ctx, x, Tensor(), x, saved); }
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) final {
    return InputGradient(ctx, std::move(dy), Tensor(), saved);
  }

  // Forward of x + branch. `branch` becomes that sum, in its own memory if it has no other owner.
  Tensor ForwardOfSum(Context& ctx, const Tensor& x, Tensor& branch, Saved& saved);
  // BackwardInput, plus the gradient `past` that bypassed the norm.
  Tensor BackwardInputPlus(Context& ctx, Tensor dy, const Tensor& past, Saved& saved) {
    return InputGradient(ctx, std::move(dy), past, saved);
  }

 protected:
  // Normalises x + branch and writes that sum to `sum`; without a branch, `sum` is x.
  virtual Tensor Normalise(Context& ctx, const Tensor& x, const Tensor& branch, const Tensor& sum, Saved& saved) = 0;
  virtual Tensor InputGradient(Context& ctx, Tensor dy, const Tensor& past, Saved& saved) = 0;
};

// The same for any module in a norm's place. One that is not a ResidualNorm (a wrapper around one) needs two passes.
Tensor ForwardOfSum(Module& norm, Context& ctx, const Tensor& x, Tensor& branch, Saved& saved);

}  // namespace twofold::nn
