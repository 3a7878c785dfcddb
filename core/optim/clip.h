// The global norm of gradients, clipping by it (Pascanu et al. 2013) and undoing the scale of the loss (Micikevicius et al.
// 2018, section 3.2), without a pass over the gradients to change them and without the host learning the norm: what comes out
// is the element by which Optimizer::Step multiplies the gradients as it reads them.
#pragma once

#include <functional>
#include <span>

#include "core/nn/context.h"
#include "core/tensor/tensor.h"

namespace twofold::optim {

// The sum of squares over all gradients and, where these are but a part, over what `all_reduce` adds: it is given the sum
// of these, one element, and must leave the global sum in it, ordered before what is launched on ctx.stream next. One
// element, F32, or F64 when the gradients are; they must be all F64 or none. Not finite where a gradient is not, or where
// the squares are too large for it. Padding in flat gradients must be zero. Gradients may lie in the host's memory: they visit
// the device, as staging.h says.
Tensor SquaredNorm(nn::Context& ctx, std::span<const Tensor> gradients,
                   const std::function<void(Tensor&)>& all_reduce = nullptr);

// What makes true gradients of norm at most max_norm of those whose SquaredNorm is given:
//     scale * min(1, max_norm / (scale * norm + 1e-6))
// `scale`: what the loss was multiplied by, inverted. An infinite max_norm clips nothing. NaN where the norm is.
Tensor ClipFactor(nn::Context& ctx, const Tensor& squared_norm, double max_norm, double scale = 1);

}  // namespace twofold::optim
