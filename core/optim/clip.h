// Clipping gradients by their global norm (Pascanu et al. 2013), without the host learning the norm.
#pragma once

#include <functional>
#include <span>

#include "core/optim/optimizer.h"

namespace twofold::optim {

// Scales every gradient by min(1, max_norm / (norm + 1e-6)), norm over all slices and, where the slices are
// but a part, over what `all_reduce` adds: it is given the sum of squares of these slices, one element, and
// must leave the global sum in it, ordered before what is launched on ctx.stream next. Returns the global sum
// of squares (F32, or F64 when the gradients are F64). Gradients must be all F64 or none.
Tensor ClipByGlobalNorm(nn::Context& ctx, std::span<const Slice> slices, double max_norm,
                        const std::function<void(Tensor&)>& all_reduce = nullptr);

}  // namespace twofold::optim
