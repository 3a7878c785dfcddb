// Element types on a GPU, and how kernels read and write them: stored in the tensor's type, computed in float (double
// for F64).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "core/base/check.h"
#include "core/tensor/dtype.h"

namespace twofold::cuda {

// Stored types. (core/tensor/dtype.h has the host's.)
struct Bf16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

// The compute type: "(f32)" of core/device/ops/op.h.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

#ifdef TWOFOLD_EMULATED_CUDA
__device__ inline float ToFloat(Half x) { return static_cast<float>(std::bit_cast<_Float16>(x.bits)); }
__device__ inline Half ToHalf(float f) { return {std::bit_cast<uint16_t>(static_cast<_Float16>(f))}; }
__device__ inline Bf16 ToBf16(float f) { return {twofold::BF16(f).bits}; }
#else
__device__ inline float ToFloat(Half x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
  return f;
}
__device__ inline Half ToHalf(float f) {
  Half x;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"(f));
  return x;
}
__device__ inline Bf16 ToBf16(float f) {
  Bf16 x;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(x.bits) : "f"(f));
  return x;
}
#endif
__device__ inline float ToFloat(Bf16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }

// A: a number type.
template <class A, class T>
__device__ inline A As(T x) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<A>(x);
  else
    return static_cast<A>(ToFloat(x));
}
template <class T, class A>
requires std::is_arithmetic_v<T> __device__ inline void Store(T* to, A x) { *to = static_cast<T>(x); }
__device__ inline void Store(Bf16* to, Bf16 x) { *to = x; }
__device__ inline void Store(Half* to, Half x) { *to = x; }
template <class A>
__device__ inline void Store(Bf16* to, A x) {
  *to = ToBf16(static_cast<float>(x));
}
template <class A>
__device__ inline void Store(Half* to, A x) {
  *to = ToHalf(static_cast<float>(x));
}

// N elements that one instruction loads or stores if sizeof is 4, 8 or 16; their address must be a multiple of that
// size.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};
template <class T>
constexpr int kPerLoad = 16 / sizeof(T);  // elements of a 16-byte load

// Calls f.operator()<T>() for the element type of a float tensor.
template <class F>
void ForFloat(DType type, F&& f) {
  switch (type) {
    case DType::kF64: return f.template operator()<double>();
    case DType::kF32: return f.template operator()<float>();
    case DType::kBF16: return f.template operator()<Bf16>();
    case DType::kF16: return f.template operator()<Half>();
    default: TWOFOLD_CHECK(false, "the type is a float type");
  }
}
// The same for all float types but F64.
template <class F>
void ForNarrow(DType type, F&& f) {
  switch (type) {
    case DType::kF32: return f.template operator()<float>();
    case DType::kBF16: return f.template operator()<Bf16>();
    case DType::kF16: return f.template operator()<Half>();
    default: TWOFOLD_CHECK(false, "the type is F32, BF16 or F16");
  }
}
// The same for I32 and U8.
template <class F>
void ForIndex(DType type, F&& f) {
  if (type == DType::kI32) return f.template operator()<int32_t>();
  TWOFOLD_CHECK(type == DType::kU8, "the type is I32 or U8");
  f.template operator()<uint8_t>();
}

// The same for all of these types.
template <class F>
void ForType(DType type, F&& f) {
  return IsFloat(type) ? ForFloat(type, f) : ForIndex(type, f);
}
// Calls f.operator()<Bits>() for the unsigned integers that have the size of a float tensor's elements.
template <class F>
void ForBits(DType type, F&& f) {
  const int64_t size = ElementSize(type);
  if (size == 8) return f.template operator()<unsigned long long>();
  if (size == 4) return f.template operator()<uint32_t>();
  f.template operator()<uint16_t>();
}

}  // namespace twofold::cuda
