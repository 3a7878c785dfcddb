// Tolerances for kernels that round once.
#pragma once

#include "tests/gpu/against_cpu.h"

namespace twofold {

// F64 1e-13; F32 1e-6; BF16 and F16 half a unit in the last place, the cost of storing.
inline double OwnRounding(DType t) {
  switch (t) {
    case DType::kF64: return 1e-13;
    case DType::kBF16: return 0x1p-8;
    case DType::kF16: return 0x1p-11;
    default: return 1e-6;
  }
}

}  // namespace twofold
