// Functions of one number, as accurate as its stored type requires. For .cu files only.
#pragma once

#include "kernels/cuda/numbers.h"

namespace twofold::cuda {

// 1 / (1 + e^-x), for numbers stored as T. NaN stays NaN; for large |x| the result is 0 or 1. The F32 error is about 3
// ulp.
template <class T>
__device__ inline Wide<T> Logistic(Wide<T> x) {
  if constexpr (sizeof(T) == 8)
    return 1 / (1 + exp(-x));
  else if constexpr (sizeof(T) == 4)
    return __fdividef(1.f, 1.f + expf(-x));
  else
    return __fdividef(1.f, 1.f + __expf(-x));
}

// GELU in its tanh form (Hendrycks and Gimpel 2016), x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3), computed
// as x / (1 + e^(-2u)): x times a gate.
inline constexpr double kTwoRootTwoOverPi = 1.5957691216057308, kGeluCubic = 0.044715;
template <class T>
__device__ inline Wide<T> GeluGate(Wide<T> x) {
  using A = Wide<T>;
  return Logistic<T>(x * (A(kTwoRootTwoOverPi * kGeluCubic) * (x * x) + A(kTwoRootTwoOverPi)));
}
// The derivative of GELU. The gates are multiplied first: for large |x| they vanish, while their other factor does not.
template <class T>
__device__ inline Wide<T> GeluSlope(Wide<T> x) {
  using A = Wide<T>;
  const A gate = GeluGate<T>(x);
  const A twice_du = A(3 * kTwoRootTwoOverPi * kGeluCubic) * (x * x) + A(kTwoRootTwoOverPi);
  return x * (gate * (1 - gate)) * twice_du + gate;
}

// a * b and a + b, each rounded. To match a CPU's bits they must not be fused into one multiply-add.
__device__ inline float Product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double Product(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float Plus(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double Plus(double a, double b) { return __dadd_rn(a, b); }

}  // namespace twofold::cuda
