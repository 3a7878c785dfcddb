// What optimizers keep for a slice.
#pragma once

#include "core/optim/optimizer.h"

namespace twofold::optim {

// One zero per element, f32 (f64 for f64 slices).
Tensor NewMoment(nn::Context& ctx, const Slice& slice);

// The f32 copy of a narrow slice, made from its present value; empty for f32 and f64.
Tensor NewMaster(nn::Context& ctx, const Slice& slice);

}  // namespace twofold::optim
