// Element types. BF16 and F16 are for storage only: arithmetic is done in F32, and results are rounded once when
// stored.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "core/base/units.h"

namespace twofold {

enum class DType : uint8_t { kF64, kF32, kBF16, kF16, kI32, kU8 };

constexpr int64_t ElementSize(DType t) {
  switch (t) {
    case DType::kF64: return 8;
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kBF16:
    case DType::kF16: return 2;
    case DType::kU8: return 1;
  }
  return 0;
}
constexpr std::string_view DTypeName(DType t) {
  constexpr std::string_view kNames[] = {"f64", "f32", "bf16", "f16", "i32", "u8"};
  return kNames[static_cast<int>(t)];
}
constexpr bool IsFloat(DType t) { return t <= DType::kF16; }

// bfloat16: the upper half of an f32; rounds to nearest even.
struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  explicit BF16(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<uint16_t>((u >> 16) | 0x40) : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// IEEE half precision; rounds to nearest even.
struct F16 {
  _Float16 value = 0;
  F16() = default;
  explicit F16(float f) : value(static_cast<_Float16>(f)) {}
  explicit operator float() const { return static_cast<float>(value); }
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<F16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};

}  // namespace twofold
