// Registers as types, for the few kernels that keep a block of results in them.
#pragma once

#include <cstdint>

namespace twofold::cpu {

// The widest register of the machine that the build is for.
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

}  // namespace twofold::cpu
