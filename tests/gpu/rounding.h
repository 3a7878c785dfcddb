// Tolerances for results that are summed in f32 (f64) and rounded once.
#pragma once

#include <algorithm>

#include "core/device/ops.h"

namespace twofold {

// For ExpectLikeCpu: the tolerance for outputs of type `out` of an operation with operands of type `operands`. The
// larger of half a unit in the last place of `out`, relative to the value, and 2e-6 (f64: 1e-13) for sums of some
// thousand terms.
inline double Rounding(DType operands, DType out) {
  const double sums = operands == DType::kF64 ? 1e-13 : 2e-6;
  const double stored = out == DType::kBF16 ? 4e-3 : out == DType::kF16 ? 5e-4 : out == DType::kF32 ? 1e-7 : 0;
  return std::max(sums, stored);
}
inline double Rounding(DType type) { return Rounding(type, type); }

}  // namespace twofold
