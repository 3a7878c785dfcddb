// Definitions common to all operations: their cost, and the key by which a cost model looks them up.
//
// To add an operation: add a struct and its rules (a key, a cost, a check, and a workspace if it needs one) in a file
// of this folder, its name to TWOFOLD_OPERATIONS (core/device/ops.h), and a kernel in each kernels/ folder. The list
// declares the key, cost, check and kernels of every operation, so the linker reports a missing one. Conventions:
//   * tensors are contiguous and row-major; "rows" are all dimensions except the last;
//   * `accumulate` adds to the output instead of overwriting it;
//   * float tensors of one operation share a dtype. Exceptions: those marked (acc) may have any float dtype (gradients
//     may be wider than parameters), and those marked (f32) are F64 if the others are F64, else F32;
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

// The key by which a cost model looks up a kernel. dims: products m, n, k; attention b*heads, t, head_dim; others rows,
// columns (element-wise: 1, numel).
struct KernelKey {
  std::string_view name;
  DType dtype;
  std::array<int64_t, 3> dims;
  friend bool operator==(const KernelKey&, const KernelKey&) = default;
};

// Maps the elements of a local tensor to their indices in the whole tensor that it is a part of. Random draws use the
// index in the whole. Consecutive blocks of `block` local elements go to the `blocks` offsets in turn. Then the pattern
// repeats `stride` elements further on. A range of a flattened whole: {.first = ...}. Columns [c, c + n) of rows of w:
// {.block = n, .stride = w, .offset = {c}}.
struct IndexMap {
  int64_t first = 0;  // the local elements begin at this index, not at 0
  int64_t block = 0;  // 0: a single block of unlimited length
  int64_t stride = 0;
  int blocks = 1;  // 1 or 2
  std::array<int64_t, 2> offset = {0, 0};

  constexpr int64_t Of(int64_t i) const {
    i += first;
    if (block == 0) return offset[0] + i;
    const int64_t b = i / block;
    return b / blocks * stride + offset[static_cast<size_t>(b % blocks)] + i % block;
  }
  // The number of elements from i on that are contiguous in the whole, at most `most`.
  constexpr int64_t RunFrom(int64_t i, int64_t most) const {
    if (block == 0) return most;
    const int64_t left = block - (i + first) % block;
    return left < most ? left : most;
  }
};

// The same map for rows, whose indices are positions in a sequence. All samples are alike, so stride is 0. The default
// is a whole sequence: row r of a flattened [b, t, c] is position r mod t.
inline IndexMap PositionsOr(const IndexMap& positions, int64_t t) {
  return positions.block > 0 ? positions : IndexMap{.block = t};
}
// One past the last position.
constexpr int64_t EndOf(const IndexMap& positions) {
  const int64_t last =
      positions.blocks > 1 && positions.offset[1] > positions.offset[0] ? positions.offset[1] : positions.offset[0];
  return last + positions.block;
}

// The type of "(f32)" tensors
constexpr DType AccumulationType(DType t) { return t == DType::kF64 ? DType::kF64 : DType::kF32; }

namespace rules {
template <class Other>  // most operations need no scratch memory on a CPU; some need it per thread
Bytes CpuWorkspace(const Other&) {
  return Bytes(0);
}
template <class Other>  // likewise on a GPU of any type: rules depend only on shapes
Bytes CudaWorkspace(const Other&) {
  return Bytes(0);
}
}  // namespace rules

}  // namespace twofold::ops
