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
Bytes CudaWorkspace(const LayerNormWeights&);
Bytes CudaWorkspace(const RmsNormWeights&);
}  // namespace rules

}  // namespace twofold::ops
