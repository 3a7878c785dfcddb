// The parts of attention that stores its scores, as frameworks computed it before tiled kernels: a batch of products, a
// softmax, a batch of products.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// The layout of one operand's matrices in a tensor. The matrix of batch b and head h starts at element first + b *
// batch + (h / group) * head and has rows `stride` elements apart. group > 1: this many consecutive heads share a
// matrix.
struct Matrices {
  Tensor tensor;
  int64_t stride = 0, batch = 0, head = 0, first = 0, group = 1;
};

// For each b < batches and h < heads: out (acc) [m, n] = alpha * op(a) [m, k] * op(b) [k, n]. If heads share a matrix
// of out, it is the sum over these heads, rounded once.
struct BatchedMatMul {
  Matrices a, b, out;
  int64_t batches = 1, heads = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  double alpha = 1;
};

// Softmax over the last dimension of x [.., t, n]. `causal`: row r of t sees only columns [0, r], and the other columns
// become 0. y may be x.
struct SoftmaxForward {
  Tensor x, y;
  bool causal = true;
};
struct SoftmaxBackward {
  Tensor y, dy, dx;
};  // dx = y * (dy - sum of y * dy); dx may be dy

namespace rules {
Bytes CpuWorkspace(const BatchedMatMul&);
Bytes CudaWorkspace(const BatchedMatMul&);
// Size of a copy (f32) of all output matrices, one after the other. Needed if cuBLASLt cannot store their type
// (LibraryStores in product.h), or if a sum over heads would be rounded more than once. First in the workspace.
Bytes CudaProductCopy(const BatchedMatMul&);
}  // namespace rules

}  // namespace twofold::ops
