// The plain reference: what every rank brings, and what comes of it by a loop over ranks.
//
// Data is a function of (rank, salt, index) alone, so each rank computes what the others bring, and compares results block
// by block without a second copy of them. Any thread; nothing here allocates but for the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/comm/reduce_op.h"
#include "core/tensor/dtype.h"

namespace twofold::conformance {

// The widest first: an allocator that keeps what is freed has room for the others then.
inline constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kI32, DType::kBF16, DType::kF16, DType::kU8};

// Endless data of one rank. Floats lie in [-8.8, 8.8), or near one: their magnitudes in [0.5, 2], so that no product of a
// few of them leaves the range of f16. Integers lie in [-100, 100), bytes anywhere.
struct Series {
  int rank = 0;
  uint32_t salt = 0;
  bool near_one = false;
};

struct Difference {
  int64_t index;  // of the first element that is wrong
  double value, expected, tolerance;
};

// Bytes are aligned as their type wants it.

// Element `first` of the series and those that follow it.
void Write(DType dtype, const Series& series, int64_t first, std::span<std::byte> out);
// Bit for bit.
std::optional<Difference> Compare(DType dtype, std::span<const std::byte> values, const Series& series, int64_t first);

// All of `inputs` reduced in their order, narrow types accumulated in f32 and rounded once. Exact: bit for bit. Else floats
// may be combined in any order and rounded at every step. With n inputs a sum has n - 1 roundings, a mean one more, and
// the reference its own; each is at most eps/2 of a partial result, none of which exceeds the sum of magnitudes. So the
// tolerance is n * eps of that sum, of a mean its n-th part, of a product n * eps of its magnitude. Integers, minima
// and maxima are exact in any order.
std::optional<Difference> CompareReduced(DType dtype, std::span<const std::byte> values, std::span<const Series> inputs,
                                         ReduceOp op, int64_t first, bool exact);

}  // namespace twofold::conformance
