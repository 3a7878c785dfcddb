// Gradient clipping by the global norm (Pascanu et al. 2013), combined with undoing the loss scale (Micikevicius et al.
// 2018, section 3.2). It makes no pass to change the gradients, and the host never reads the norm: the result is a
// one-element tensor by which Optimizer::Step multiplies the gradients as it reads them.
#pragma once

#include <functional>
#include <span>

#include "core/nn/context.h"
#include "core/tensor/tensor.h"

namespace twofold::optim {

// The sum of squares over all gradients. If this rank has only a part of them, `all_reduce` completes the sum: it
// receives the local sum, one element, and must leave the global sum in it, ordered before what is launched on
// ctx.stream next. The result is one element, F32, or F64 if the gradients are; either all gradients are F64 or none.
// It is not finite if a gradient is not, or if the squares overflow. Padding in flat gradients must be zero. Gradients
// may be in host memory; they are then staged through the device (staging.h).
Tensor SquaredNorm(nn::Context& ctx, std::span<const Tensor> gradients,
                   const std::function<void(Tensor&)>& all_reduce = nullptr);

// Adds the squares of further gradients, of the same type, to `squares`, which SquaredNorm returned.
void AddSquares(nn::Context& ctx, std::span<const Tensor> gradients, Tensor& squares);

// The factor that turns the given gradients into true gradients (without loss scale) of norm at most max_norm:
//     scale * min(1, max_norm / (scale * norm + 1e-6))
// `scale`: the inverse of the loss scale. An infinite max_norm clips nothing. The result is NaN if the norm is.
Tensor ClipFactor(nn::Context& ctx, const Tensor& squared_norm, double max_norm, double scale = 1);

}  // namespace twofold::optim
