// Operands of the attention kernels. Attention of a whole sequence is an AttentionBlock that covers all scores
// (core/device/ops/attention_block.h). For attention*.{cu,cc} only.
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/numbers.h"

namespace twofold::cuda {

// Row r (of the AttentionBlock) of head h of batch b is the `dim` elements from data + b * batch + r * row + h * dim
// on.
template <class T>
struct HeadRows {
  T* data = nullptr;
  int64_t batch = 0, row = 0;
  __device__ T* At(int64_t b, int64_t h, int64_t r, int dim) const { return data + b * batch + r * row + h * dim; }
};
// The rows of a result: of type T, or of the wide type if `narrow` is null. `add`: add to the existing values (wide
// only).
template <class T>
struct Results {
  HeadRows<T> narrow;
  HeadRows<Wide<T>> wide;
  bool add = false;
};

template <class T>
struct AttentionSizes {
  int batch, heads, group, queries, keys, dim;  // `group` heads share keys and values
  bool causal;
  Wide<T> scale;  // factor of the scores
};
// lse and delta: the value for row r of head h of batch b is at [b * batch + h * head + r].
template <class A>
struct RowNumbers {
  A* data = nullptr;
  int64_t batch = 0, head = 0;
  __device__ A* At(int64_t b, int64_t h, int64_t r) const { return data + b * batch + h * head + r; }
};

template <class T>
struct ForwardOperands {
  AttentionSizes<T> sizes;
  HeadRows<const T> q, k, v;
  Results<T> out;  // `add`: merge with the result of other keys
  RowNumbers<Wide<T>> lse;
};
template <class T>
struct BackwardOperands {
  AttentionSizes<T> sizes;
  HeadRows<const T> q, k, v, out, dout;
  Results<T> dq, dk, dv;
  RowNumbers<const Wide<T>> lse;
  RowNumbers<Wide<T>> delta;  // workspace: sum over a row of dout * out
};

// A row holds the result of other keys, with log-sum-exp `others`, and the result of these keys, with log-sum-exp
// `lse`, is to be merged into it. Sets `lse` to the log-sum-exp of both, multiplies `factor` (of these keys) by their
// share of the result, and returns the share of the others.
template <class A>
__device__ inline A MakeRoom(A others, A& lse, A& factor) {
  const A these = lse, larger = others > these ? others : these, smaller = others > these ? these : others;
  if (larger == -static_cast<A>(INFINITY)) return A(1);
  lse = larger + log1p(exp(smaller - larger));
  factor *= exp(these - lse);
  return exp(others - lse);
}

// Runs on tensor cores. T: Bf16 or Half; sizes.dim is a multiple of 8 up to kMostDim; every row is aligned to 16 bytes.
inline constexpr int kMostDim = 256;
template <class T>
void TensorCoreForward(const ForwardOperands<T>& o, const Context& c);
// The same by Hopper's instructions (hopper.h), on a GPU and in a build that have them (WhyNoHopperAttention). In
// addition sizes.dim is 64 or 128, and there are queries and keys.
template <class T>
void TensorCoreForwardOfHopper(const ForwardOperands<T>& o, const Context& c);
template <class T>
void TensorCoreBackward(const BackwardOperands<T>& o, const Context& c);

// Runs on the CUDA cores: all types, sizes and addresses.
template <class T>
void PlainForward(const ForwardOperands<T>& o, const Context& c);
template <class T>
void PlainBackward(const BackwardOperands<T>& o, const Context& c);

}  // namespace twofold::cuda
