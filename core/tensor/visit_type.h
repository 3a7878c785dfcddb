// Code that is written once for all element types.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/tensor/dtype.h"

namespace twofold {

// Converts one value. bf16 and f16 go through float; floats become integers by truncation and must fit.
template <class To, class From>
To ConvertTo(From x) {
  constexpr bool kNarrowTo = std::is_same_v<To, BF16> || std::is_same_v<To, F16>;
  constexpr bool kNarrowFrom = std::is_same_v<From, BF16> || std::is_same_v<From, F16>;
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (kNarrowFrom)
    return ConvertTo<To>(static_cast<float>(x));
  else if constexpr (kNarrowTo)
    return To(static_cast<float>(x));
  else
    return static_cast<To>(x);
}

// Calls f.operator()<T>() with the C++ type of `t`.
template <class F>
decltype(auto) VisitType(DType t, F&& f) {
  switch (t) {
    case DType::kF64: return f.template operator()<double>();
    case DType::kF32: return f.template operator()<float>();
    case DType::kBF16: return f.template operator()<BF16>();
    case DType::kF16: return f.template operator()<F16>();
    case DType::kI32: return f.template operator()<int32_t>();
    case DType::kU8: return f.template operator()<uint8_t>();
  }
  __builtin_unreachable();
}

}  // namespace twofold
