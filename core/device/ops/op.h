// What every operation is made of: its cost, and the key that a cost model looks it up by.
//
// Adding an operation: a struct and its rules (a key, a cost, a check, and a workspace if it needs one) in a file of this
// folder, a row in `AnyOp` (core/device/ops.h), and a kernel in each kernels/ folder; std::visit makes the compiler ask for
// what is missing. Conventions:
//   * tensors are contiguous and row-major; "rows" are all dimensions but the last;
//   * `accumulate` adds to the output instead of writing it;
//   * float tensors of one operation share a dtype, but for those marked (acc), which may have any float dtype
//     (gradients may be wider than parameters), and those marked (f32), which are F64 when the others are F64, else F32;
//   * every operation is deterministic for a given number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/base/units.h"
#include "core/tensor/tensor.h"

namespace twofold::ops {

struct Cost {
  Flops flops;
  Bytes read, written;
  Bytes bytes() const { return read + written; }
};

// What a cost model looks a kernel up by. dims: products m, n, k; attention b*heads, t, head_dim; else rows, columns
// (element-wise: 1, numel).
struct KernelKey {
  std::string_view name;
  DType dtype;
  std::array<int64_t, 3> dims;
  friend bool operator==(const KernelKey&, const KernelKey&) = default;
};

// Where the elements of a local tensor lie in the whole that it is a part of, where random draws go by the place in the whole:
// blocks of `block` elements, `blocks` of them in turn with offsets of their own, then the same `stride` elements further on.
// A range of a flattened whole: {.first = ...}. Columns [c, c + n) of rows of w: {.block = n, .stride = w, .offset = {c}}.
struct IndexMap {
  int64_t first = 0;   // local elements begin here, not at 0
  int64_t block = 0;   // 0: one block of any length
  int64_t stride = 0;
  int blocks = 1;      // 1 or 2
  std::array<int64_t, 2> offset = {0, 0};

  constexpr int64_t Of(int64_t i) const {
    i += first;
    if (block == 0) return offset[0] + i;
    const int64_t b = i / block;
    return b / blocks * stride + offset[static_cast<size_t>(b % blocks)] + i % block;
  }
  // How many elements from i on lie one after the other in the whole; at most `most`.
  constexpr int64_t RunFrom(int64_t i, int64_t most) const {
    if (block == 0) return most;
    const int64_t left = block - (i + first) % block;
    return left < most ? left : most;
  }
};

// The same of rows, whose places are positions in a sequence: samples are alike, so stride is 0. The default is a whole
// sequence: row r of a flattened [b, t, c] is position r mod t.
inline IndexMap PositionsOr(const IndexMap& positions, int64_t t) { return positions.block > 0 ? positions : IndexMap{.block = t}; }
// One past the last of them.
constexpr int64_t EndOf(const IndexMap& positions) {
  const int64_t last = positions.blocks > 1 && positions.offset[1] > positions.offset[0] ? positions.offset[1] : positions.offset[0];
  return last + positions.block;
}

constexpr DType AccumulationType(DType t) { return t == DType::kF64 ? DType::kF64 : DType::kF32; }  // "(f32)"

namespace rules {
template <class Other>  // most operations need no scratch memory on a CPU; some that do need it for each thread
Bytes CpuWorkspace(const Other&) { return Bytes(0); }
template <class Other>  // likewise on a GPU, of any kind: a rule knows shapes alone
Bytes CudaWorkspace(const Other&) { return Bytes(0); }
}  // namespace rules

}  // namespace twofold::ops
