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
Bytes CudaWorkspace(const MatMul&);

// ---- What the CUDA kernel and its workspace rule share ----

// cuBLASLt writes the output itself: in the type of the operands, or narrow ones' sums unrounded. Else it writes to a copy (f32).
bool LibraryStores(DType operands, DType out);
// Of the copy, and of a copy of the bias, which cuBLASLt wants aligned. In the workspace they come first, in this order.
Bytes CudaProductCopy(const MatMul&);
Bytes CudaBiasCopy(const MatMul&);
}  // namespace rules

}  // namespace twofold::ops
