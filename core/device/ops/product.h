// Matrix products.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// out[m, n] = op(a) * op(b) (+ bias[n]); op transposes the last two dimensions as stored. a and b are 2-D.
//
// What comes after it element by element may be part of it, so that the product s is not written and read again (GELU as in
// ActivationForward; out and aux are of the operands' type, and nothing is accumulated):
//     kGelu       out = gelu(s), and aux = s. GELU is taken of s before or after it is rounded
//     kGeluSlope  out = s * gelu'(aux): from the gradient of gelu(aux) to that of aux
struct MatMul {
  enum Epilogue { kNone, kGelu, kGeluSlope };
  Tensor a, b, out /*(acc)*/, bias /* may be empty */;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  Epilogue epilogue = kNone;
  Tensor aux = {} /* [m, n]; empty without an epilogue */;
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
