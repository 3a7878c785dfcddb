// The parts of attention whose scores are stored, as frameworks computed it before tiled kernels: a batch of products, a
// softmax, a batch of products.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// Where the matrices of one operand lie in a tensor: that of batch b and head h has rows `stride` elements apart, from
// element first + b * batch + (h / group) * head on. group > 1: that many heads in a row share a matrix.
struct Matrices { Tensor tensor; int64_t stride = 0, batch = 0, head = 0, first = 0, group = 1; };

// For each b < batches and h < heads: out (acc) [m, n] = alpha * op(a) [m, k] * op(b) [k, n]. Where heads share a matrix of out,
// it is the sum over them, rounded once.
struct BatchedMatMul {
  Matrices a, b, out;
  int64_t batches = 1, heads = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  double alpha = 1;
};

// Over the last dimension of x [.., t, n]. `causal`: row r of t sees columns [0, r] alone; the others become 0. y may be x.
struct SoftmaxForward { Tensor x, y; bool causal = true; };
struct SoftmaxBackward { Tensor y, dy, dx; };  // dx = y * (dy - sum of y * dy); dx may be dy

namespace rules {
KernelKey Key(const BatchedMatMul&);
Cost CostOf(const BatchedMatMul&);
void CheckShapes(const BatchedMatMul&);
Bytes CpuWorkspace(const BatchedMatMul&);
Bytes CudaWorkspace(const BatchedMatMul&);
// Of a copy (f32) of all output matrices, one after the other: where cuBLASLt does not store their type (LibraryStores of
// product.h), or a sum over heads is rounded more than once. First in the workspace.
Bytes CudaProductCopy(const BatchedMatMul&);
KernelKey Key(const SoftmaxForward&);
Cost CostOf(const SoftmaxForward&);
void CheckShapes(const SoftmaxForward&);
KernelKey Key(const SoftmaxBackward&);
Cost CostOf(const SoftmaxBackward&);
void CheckShapes(const SoftmaxBackward&);
}  // namespace rules

}  // namespace twofold::ops
