// The factor by which an update multiplies its gradient: clipping, and undoing a fixed loss scale.
#pragma once

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "strategies/training_options.h"

namespace twofold {

// For Optimizer::Step; empty: 1. `gradient`: this rank's part of it. `holders`: the ranks that hold the other parts;
// null, or one rank: it is whole. Collective over `holders`.
Tensor GradientFactor(nn::Context& ctx, const TrainingOptions& options, const Tensor& gradient,
                      ProcessGroup* holders = nullptr);

}  // namespace twofold
