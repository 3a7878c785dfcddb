// Tolerances of results that are sums in f32 (f64) and rounded once.
#pragma once

#include <algorithm>

#include "core/device/ops.h"

namespace twofold {

// For ExpectLikeCpu: of outputs of type `out` of an operation whose operands are of type `operands`. Half a unit in the last place of
// `out`, at its largest beside a number, and 2e-6 (f64: 1e-13) for sums of some thousand terms.
inline double Rounding(DType operands, DType out) {
  const double sums = operands == DType::kF64 ? 1e-13 : 2e-6;
  const double stored = out == DType::kBF16 ? 4e-3 : out == DType::kF16 ? 5e-4 : out == DType::kF32 ? 1e-7 : 0;
  return std::max(sums, stored);
}
inline double Rounding(DType type) { return Rounding(type, type); }

}  // namespace twofold
