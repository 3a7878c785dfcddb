// The bias that layers add to the last dimension of their output.
#pragma once

#include "core/nn/module.h"
#include "core/nn/rows.h"

namespace twofold::nn {

// The bias tensor as operations take it; empty if there is no bias.
inline Tensor BiasData(const Parameter* bias) { return bias != nullptr ? bias->data() : Tensor(); }

// If there is a bias, its gradient: the sums of dy's columns. Call it before computing the weight's gradient: gradients
// must become ready in the reverse order of Parameters().
inline void BiasGradient(Context& ctx, const Tensor& dy, Parameter* bias) {
  if (bias == nullptr) return;
  const Parameter::Gradient db = bias->BeginGradient();
  ctx.Launch(ops::ColumnSum{.in = Rows(dy), .out = db.tensor, .accumulate = db.accumulate});
  bias->EndGradient();
}

}  // namespace twofold::nn
