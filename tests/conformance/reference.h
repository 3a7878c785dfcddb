// The plain reference: the input of every rank, and the expected output, computed by a loop over ranks.
//
// Data is a function of (rank, salt, index) alone. So each rank can compute the others' inputs, and compares results
// block by block without a second copy. Thread-safe; allocates nothing except the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/comm/reduce_op.h"
#include "core/tensor/dtype.h"

namespace twofold::conformance {

// The widest type first: an allocator that caches freed memory then has room for the others.
inline constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kI32, DType::kBF16, DType::kF16, DType::kU8};

// Endless data of one rank. Floats are in [-8.8, 8.8), or near one: then their magnitudes are in [0.5, 2], so that
// products of a few of them stay in the range of f16. Integers are in [-100, 100), bytes have any value.
struct Series {
  int rank = 0;
  uint32_t salt = 0;
  bool near_one = false;
};

struct Difference {
  int64_t index;  // of the first element that is wrong
  double value, expected, tolerance;
};

// Bytes must be aligned for their type.

// Writes element `first` of the series and those after it.
void Write(DType dtype, const Series& series, int64_t first, std::span<std::byte> out);
// Compares bit for bit.
std::optional<Difference> Compare(DType dtype, std::span<const std::byte> values, const Series& series, int64_t first);

// Compares with `inputs` reduced in their order; BF16 and F16 are accumulated in f32 and rounded once. Exact: bit for
// bit. Otherwise floats may be combined in any order and rounded at every step. With n inputs a sum has n - 1
// roundings, a mean one more, and the reference its own. Each is at most eps/2 of a partial result, and no partial
// result exceeds the sum of magnitudes. So the tolerance of a sum is n * eps times the sum of magnitudes, of a mean 1/n
// of that, of a product n * eps times its magnitude. Integers, minima and maxima are exact in any order.
std::optional<Difference> CompareReduced(DType dtype, std::span<const std::byte> values, std::span<const Series> inputs,
                                         ReduceOp op, int64_t first, bool exact);

}  // namespace twofold::conformance
