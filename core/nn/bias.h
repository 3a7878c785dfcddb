// The bias of layers that add one to the last dimension of their output.
#pragma once

#include "core/nn/module.h"
#include "core/nn/rows.h"

namespace twofold::nn {

// What an operation takes: empty where there is none.
inline Tensor BiasData(const Parameter* bias) { return bias != nullptr ? bias->data() : Tensor(); }

// The sums of dy's columns, where there is a bias. Call it before the weight's gradient: gradients become ready in the
// reverse of the order of Parameters().
inline void BiasGradient(Context& ctx, const Tensor& dy, Parameter* bias) {
  if (bias == nullptr) return;
  const Parameter::Gradient db = bias->BeginGradient();
  ctx.Launch(ops::ColumnSum{.in = Rows(dy), .out = db.tensor, .accumulate = db.accumulate});
  bias->EndGradient();
}

}  // namespace twofold::nn
