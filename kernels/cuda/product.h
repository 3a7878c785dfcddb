// Matrix products as cuBLASLt takes them: column-major, and many at once where their matrices lie evenly apart.
//
// Our tensors are row-major. Their memory read in columns holds the transposes, so out = a b is asked for as out^T = b^T a^T:
// the library's a is our b, its b our a. Nothing here calls CUDA.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "core/device/ops.h"

namespace twofold::cuda {

// rows x columns, in columns `leading` elements apart; matrix i of a batch begins i * batch_stride elements further on.
struct LibraryMatrix {
  DType type;
  int64_t rows, columns, leading, batch_stride = 0;
  friend auto operator<=>(const LibraryMatrix&, const LibraryMatrix&) = default;
};

// d = alpha * op(a) * op(b) + beta * d, plus bias[r] in row r of d where there is a bias, of d's type. d is not read when beta is 0.
// Sums are made in `arithmetic`, F32 or F64, and rounded once.
// With an epilogue (core/device/ops/product.h) the library does it on the unrounded sums; aux is laid out like d, of d's type.
struct LibraryProduct {
  LibraryMatrix a, b, d;
  bool transpose_a = false, transpose_b = false, bias = false;
  int64_t batch = 1;
  DType arithmetic = DType::kF32;
  ops::MatMul::Epilogue epilogue = ops::MatMul::kNone;
  double alpha = 1, beta = 0;
  friend auto operator<=>(const LibraryProduct&, const LibraryProduct&) = default;
  int64_t inner() const { return transpose_a ? a.rows : a.columns; }
};

// Products that differ in their matrices alone: what an operation asks of the library. Loops are nested, the first outermost.
struct ProductPlan {
  struct Loop { int64_t count, a, b, d; };  // steps in elements; d == 0: a sum over the loop
  LibraryProduct product;                   // beta: of the first of each sum; of the others it is 1
  std::vector<Loop> loops;
  int64_t a_first = 0, b_first = 0, d_first = 0;
};

// How out = op(a) op(b) is asked for. `copy`: d is a row-major copy of the output in the type of the arithmetic, and does not add to
// what was there; `bias`: the library adds it; `epilogue`: it does the operation's.
ProductPlan PlanOf(const ops::MatMul& o, bool copy, bool bias, bool epilogue = false);
// The same of a batch; in a copy the output's matrices [m, n] lie one after the other. Of the loops over batches and heads that
// the library could do at once it does the longest.
ProductPlan PlanOf(const ops::BatchedMatMul& o, bool copy);

// f(first element of a, of b, of d, beta) for every product of the plan, in order.
template <class F>
void ForEachProduct(const ProductPlan& p, F&& f) {
  int64_t products = 1;
  for (const ProductPlan::Loop& loop : p.loops) products *= loop.count;
  for (int64_t i = 0; i < products; ++i) {
    int64_t a = p.a_first, b = p.b_first, d = p.d_first, rest = i;
    bool first_of_sum = true;
    for (size_t at = p.loops.size(); at-- > 0;) {
      const ProductPlan::Loop& loop = p.loops[at];
      const int64_t index = rest % loop.count;
      rest /= loop.count;
      a += index * loop.a, b += index * loop.b, d += index * loop.d;
      if (loop.d == 0 && index > 0) first_of_sum = false;
    }
    f(a, b, d, first_of_sum ? p.product.beta : 1.0);
  }
}

}  // namespace twofold::cuda
