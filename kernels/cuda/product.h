// Matrix products in cuBLASLt's form: column-major, and batched if the matrices have a constant stride.
//
// Our tensors are row-major. The same memory read column-major is the transpose, so out = a b is requested as
// out^T = b^T a^T: the library's a is our b, and its b is our a. Nothing here calls CUDA.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "core/device/ops.h"

namespace twofold::cuda {

// Which elements of FP8 codes [inner, outer] share a scale, and how the scales lie: see ops::rules::Fp8Copies.
enum class LibraryScales : uint8_t { kOne, kInnerBlocks, kSquares };

// rows x columns, with columns `leading` elements apart; matrix i of a batch begins at i * batch_stride elements.
struct LibraryMatrix {
  DType type;  // U8: FP8 codes
  int64_t rows, columns, leading, batch_stride = 0;
  ops::Fp8Format format = ops::Fp8Format::kE4M3;  // of codes
  LibraryScales scales = LibraryScales::kOne;
  friend auto operator<=>(const LibraryMatrix&, const LibraryMatrix&) = default;
};

// d = alpha * op(a) * op(b) + beta * d, plus bias[r] in row r of d if there is a bias, which has d's type. d is not
// read if beta is 0. Sums are computed in `arithmetic`, F32 or F64, and rounded once. With an epilogue
// (core/device/ops/product.h) the library applies it to the unrounded sums; aux has d's layout and type.
struct LibraryProduct {
  LibraryMatrix a, b, d;
  bool transpose_a = false, transpose_b = false, bias = false;
  int64_t batch = 1;
  DType arithmetic = DType::kF32;
  ops::MatMul::Epilogue epilogue = ops::MatMul::kNone;
  double alpha = 1, beta = 0;
  friend auto operator<=>(const LibraryProduct&, const LibraryProduct&) = default;
  int64_t inner() const { return transpose_a ? a.rows : a.columns; }
  bool fp8() const { return a.type == DType::kU8; }
};

// Products that differ only in the addresses of their matrices: what an operation requests from the library. Loops are
// nested, the first one outermost.
struct ProductPlan {
  struct Loop {
    int64_t count, a, b, d;
  };                       // steps in elements; d == 0: a sum over the loop
  LibraryProduct product;  // beta: of the first product of each sum; it is 1 for the others
  std::vector<Loop> loops;
  int64_t a_first = 0, b_first = 0, d_first = 0;
};

// How to request out = op(a) op(b). `copy`: d is a row-major copy of the output in the compute type, and does not add
// to existing values; `bias`: the library adds it; `epilogue`: the library applies the operation's.
ProductPlan PlanOf(const ops::MatMul& o, bool copy, bool bias, bool epilogue = false);
// The same for a batch. In a copy, the output matrices [m, n] are contiguous. The longest of the loops over batches and
// heads that the library could run as a batch becomes its batch.
ProductPlan PlanOf(const ops::BatchedMatMul& o, bool copy);

// The same product of operands that lie along the sum: transpose(a) and b, with contiguous columns. Those that do not
// are to be transposed.
LibraryProduct AlongSum(LibraryProduct p);

// Calls f(first element of a, of b, of d, beta) for every product of the plan, in order.
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
