// Matrix products.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// out[m, n] = op(a) * op(b) (+ bias[n]); op transposes the last two dimensions as stored. a and b are 2-D.
struct MatMul {
  Tensor a, b, out /*(acc)*/, bias /* may be empty */;
  bool transpose_a = false, transpose_b = false, accumulate = false;
};

namespace rules {
KernelKey Key(const MatMul&);
Cost CostOf(const MatMul&);
void CheckShapes(const MatMul&);
Bytes CpuWorkspace(const MatMul&, int threads);
}  // namespace rules

}  // namespace twofold::ops
