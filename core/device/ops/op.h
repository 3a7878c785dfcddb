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

constexpr DType AccumulationType(DType t) { return t == DType::kF64 ? DType::kF64 : DType::kF32; }  // "(f32)"

namespace rules {
template <class Other>  // most operations need no scratch memory on a CPU; some that do need it for each thread
Bytes CpuWorkspace(const Other&) { return Bytes(0); }
}  // namespace rules

}  // namespace twofold::ops
