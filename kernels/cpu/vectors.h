// Vector registers as types, for the few kernels that keep a block of results in them.
#pragma once

#include <cstdint>

namespace twofold::cpu {

// The widest vector register of the target machine.
#if defined(__AVX512F__)
inline constexpr int64_t kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int64_t kVectorBytes = 32;
#else
inline constexpr int64_t kVectorBytes = 16;
#endif

namespace internal {
template <class A>
struct Simd;
template <>
struct Simd<float> {
  typedef float Vector __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
  typedef int32_t Lanes __attribute__((vector_size(kVectorBytes)));
};
template <>
struct Simd<double> {
  typedef double Vector __attribute__((vector_size(kVectorBytes), aligned(8), may_alias));
  typedef int64_t Lanes __attribute__((vector_size(kVectorBytes)));
};

// Square blocks of registers are transposed by exchanging halves, then quarters, ... between neighbours.
template <class A, int64_t kDistance, int64_t... kLane>
inline __attribute__((always_inline)) void Exchange(typename Simd<A>::Vector& a, typename Simd<A>::Vector& b,
                                                    std::integer_sequence<int64_t, kLane...>) {
  using Lanes = typename Simd<A>::Lanes;
  constexpr int64_t kL = sizeof...(kLane);
  const typename Simd<A>::Vector low =
      __builtin_shuffle(a, b, Lanes{((kLane & kDistance) == 0 ? kLane : kL + kLane - kDistance)...});
  b = __builtin_shuffle(a, b, Lanes{((kLane & kDistance) == 0 ? kLane + kDistance : kL + kLane)...});
  a = low;
}
}  // namespace internal

template <class A>
using Vector = typename internal::Simd<A>::Vector;
template <class A>
inline constexpr int64_t kVectorLanes = kVectorBytes / static_cast<int64_t>(sizeof(A));

template <class A>
inline Vector<A> LoadVector(const A* from) {
  return *reinterpret_cast<const Vector<A>*>(from);
}
template <class A>
inline void StoreVector(A* to, Vector<A> v) {
  *reinterpret_cast<Vector<A>*>(to) = v;
}

// square[i][j] = square[j][i].
template <class A, int64_t kDistance = 1>
inline __attribute__((always_inline)) void Transpose(Vector<A>* square) {
  constexpr int64_t kL = kVectorLanes<A>;
  if constexpr (kDistance < kL) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < kL; ++i) {
      if ((i & kDistance) == 0)
        internal::Exchange<A, kDistance>(square[i], square[i + kDistance], std::make_integer_sequence<int64_t, kL>());
    }
    Transpose<A, 2 * kDistance>(square);
  }
}

}  // namespace twofold::cpu
