// Arithmetic in forms that the compiler turns into vector instructions, for float and double alike.
//
// Results depend only on the values: element-wise loops apply the same operations to each element at any position, and
// sums have a fixed number of lanes by position in the sequence, so neither alignment nor the machine's vector width
// changes results. (The build forbids contraction into fused multiply-adds, except in a few files that do not include
// this one.)
// contraction into fused multiply-adds.)
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace twofold::cpu {

// a * b + c, rounded once if the machine has an instruction for it. It is explicit, so that an element's operations do
// not depend on how the compiler treats the loop around it.
template <class A>
inline A MulAdd(A a, A b, A c) {
#if defined(__FMA__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

namespace internal {
// For x = n ln 2 + r with |r| <= ln 2 / 2: returns e^r, and n in the low bits of *shifted. The polynomial has degree 7;
// its six upper coefficients interpolate (e^r - 1 - r) / r^2 at the Chebyshev nodes.
inline float ExpOfRest(float x, float* shifted) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f /* 9 bits: n * kLn2High is exact */;
  constexpr float kLn2Low = -2.12194440e-4f;
  *shifted = MulAdd(x, kLog2E, 12582912.f /* 1.5 * 2^23: adding it rounds to an integer */);
  const float n = *shifted - 12582912.f;
  const float r = MulAdd(-n, kLn2Low, MulAdd(-n, kLn2High, x));
  float p = MulAdd(1.98911803e-4f, r, 1.39338209e-3f);
  p = MulAdd(p, r, 8.33331048e-3f);
  p = MulAdd(p, r, 4.16664630e-2f);
  p = MulAdd(p, r, 1.66666672e-1f);
  p = MulAdd(p, r, 0.5f);
  return MulAdd(p, r * r, r) + 1.f;
}
inline uint32_t ExponentOf(float shifted) {  // unsigned, so that NaN's bits wrap without harm
  return std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(12582912.f);
}
}  // namespace internal

// e^x without branches; about 1 ulp. Overflows to infinity, underflows gradually to 0, keeps NaN.
inline float Exp(float x) {
  x = x < -104.f ? -104.f : x;
  x = x > 89.f ? 89.f : x;
  float shifted;
  const float p = internal::ExpOfRest(x, &shifted);
  const uint32_t k = internal::ExponentOf(shifted);
  // 2^n in two factors, because 2^-150 is not a float.
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(k) >> 1);
  return p * std::bit_cast<float>((half + 127u) << 23) * std::bit_cast<float>((k - half + 127u) << 23);
}
inline double Exp(double x) { return std::exp(x); }

// 1 / (1 + e^-x). The clamping of x (e^-x is never below e^-87, and is infinite from e^88.4 on) does not change the
// result. Keeps NaN.
inline float Logistic(float x) {
  x = x < -89.f ? -89.f : x;
  x = x > 87.f ? 87.f : x;
  float shifted;
  const float p = internal::ExpOfRest(-x, &shifted);
  return 1.f / (1.f + p * std::bit_cast<float>((internal::ExponentOf(shifted) + 127u) << 23));
}
inline double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

template <class A>
constexpr int64_t kLanes = 256 / sizeof(A);

namespace internal {
// Lane l of the result accumulates terms l, l + kLanes, ...; lanes are then folded in halves.
template <class A, class F, class Combine>
A Lanes(int64_t n, A start, F term, Combine combine) {
  A lanes[kLanes<A>];
  for (A& lane : lanes) lane = start;
  int64_t i = 0;
  for (; i + kLanes<A> <= n; i += kLanes<A>) {
#pragma omp simd
    for (int64_t l = 0; l < kLanes<A>; ++l) lanes[l] = combine(lanes[l], term(i + l));
  }
#pragma omp simd
  for (int64_t l = 0; l < n - i; ++l) lanes[l] = combine(lanes[l], term(i + l));
  for (int64_t width = kLanes<A> / 2; width > 0; width /= 2) {
    for (int64_t l = 0; l < width; ++l) lanes[l] = combine(lanes[l], lanes[l + width]);
  }
  return lanes[0];
}
}  // namespace internal

// The sum of term(0) ... term(n - 1). For pieces of a few thousand terms; for longer sums, add up such sums.
template <class A, class F>
A SumOf(int64_t n, F term) {
  return internal::Lanes<A>(n, A(0), term, [](A a, A b) { return a + b; });
}

// The largest of n values; -infinity when n is 0.
template <class A>
A MaxOf(int64_t n, const A* x) {
  return internal::Lanes<A>(
      n, -std::numeric_limits<A>::infinity(), [x](int64_t i) { return x[i]; }, [](A a, A b) { return a > b ? a : b; });
}

}  // namespace twofold::cpu
