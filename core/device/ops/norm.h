// Normalisation of rows.
//
// In a residual stream, a branch is added to x before a norm. In backward, the gradient that bypasses the norm is added
// to the norm's own gradient. Each addition would be a separate pass over memory. Instead the norm can do it in the
// same pass:
//     forward     with `branch`: x + branch, rounded to its type, is stored in `sum` and normalised;
//                 sum may be x or branch
//     backward    with `past`: dx is the gradient plus past, rounded once; dx may be past
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

struct LayerNormForward {
  Tensor x, gamma, beta, y, mean /*(f32)[rows]*/, rstd /*(f32)[rows]*/;
  double eps = 1e-5;
  Tensor branch = {}, sum = {};  // both or neither
};
struct LayerNormBackward {
  Tensor dy, x, gamma, mean, rstd, dx, past = {} /* may be empty */;
};
struct LayerNormWeights {
  Tensor dy, x, mean, rstd, dgamma /*(acc)*/, dbeta /*(acc)*/;
  bool accumulate = false;
};

// y = gamma * x * rstd with rstd = 1 / sqrt(mean of x^2 over the row + eps) (Zhang and Sennrich 2019).
struct RmsNormForward {
  Tensor x, gamma, y, rstd /*(f32)[rows]*/;
  double eps = 1e-5;
  Tensor branch = {}, sum = {};  // both or neither
};
struct RmsNormBackward {
  Tensor dy, x, gamma, rstd, dx, past = {} /* may be empty */;
};
struct RmsNormWeights {
  Tensor dy, x, rstd, dgamma /*(acc)*/;
  bool accumulate = false;
};

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
Bytes CudaWorkspace(const LayerNormWeights&);
KernelKey Key(const RmsNormForward&);
Cost CostOf(const RmsNormForward&);
void CheckShapes(const RmsNormForward&);
KernelKey Key(const RmsNormBackward&);
Cost CostOf(const RmsNormBackward&);
void CheckShapes(const RmsNormBackward&);
KernelKey Key(const RmsNormWeights&);
Cost CostOf(const RmsNormWeights&);
void CheckShapes(const RmsNormWeights&);
Bytes CudaWorkspace(const RmsNormWeights&);
}  // namespace rules

}  // namespace twofold::ops
