// Normalisation of rows.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

struct LayerNormForward { Tensor x, gamma, beta, y, mean /*(f32)[rows]*/, rstd /*(f32)[rows]*/; double eps = 1e-5; };
struct LayerNormBackward { Tensor dy, x, gamma, mean, rstd, dx; };
struct LayerNormWeights { Tensor dy, x, mean, rstd, dgamma /*(acc)*/, dbeta /*(acc)*/; bool accumulate = false; };

namespace rules {
KernelKey Key(const LayerNormForward&);
Cost CostOf(const LayerNormForward&);
void CheckShapes(const LayerNormForward&);
KernelKey Key(const LayerNormBackward&);
Cost CostOf(const LayerNormBackward&);
void CheckShapes(const LayerNormBackward&);
KernelKey Key(const LayerNormWeights&);
Cost CostOf(const LayerNormWeights&);
void CheckShapes(const LayerNormWeights&);
}  // namespace rules

}  // namespace twofold::ops
