// ReLU and GELU.
#include "kernels/cuda/functions.h"
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

// GELU in its tanh form (Hendrycks and Gimpel 2016), x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3),
// written as x / (1 + e^(-2u)).
constexpr double kTwoRootTwoOverPi = 1.5957691216057308, kCubic = 0.044715;

template <class T>
__device__ inline Wide<T> GeluGate(Wide<T> x) {
  using A = Wide<T>;
  return Logistic<T>(x * (A(kTwoRootTwoOverPi * kCubic) * (x * x) + A(kTwoRootTwoOverPi)));
}

struct Relu {
  template <class A> __device__ A operator()(A x) const { return x > 0 ? x : A(0); }
};
template <class T>
struct Gelu {
  __device__ Wide<T> operator()(Wide<T> x) const { return x * GeluGate<T>(x); }
};

struct ReluSlope {
  template <class A> __device__ A operator()(A x, A dy) const { return x > 0 ? dy : A(0); }
};
template <class T>
struct GeluSlope {
  using A = Wide<T>;
  __device__ A operator()(A x, A dy) const {
    const A gate = GeluGate<T>(x);
    const A twice_du = A(3 * kTwoRootTwoOverPi * kCubic) * (x * x) + A(kTwoRootTwoOverPi);
    return dy * (x * (gate * (1 - gate)) * twice_du + gate);  // the gates first: far out they vanish, what they multiply does not
  }
};

}  // namespace

void Compute(const ops::ActivationForward& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    if (o.kind == ops::ActivationForward::kRelu) return Map<T, T>(o.y, Relu(), o.x, c);
    Map<T, T>(o.y, Gelu<T>(), o.x, c);
  });
}

void Compute(const ops::ActivationBackward& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    if (o.kind == ops::ActivationForward::kRelu) return Map<T, T, T>(o.dx, ReluSlope(), o.x, o.dy, c);
    Map<T, T, T>(o.dx, GeluSlope<T>(), o.x, o.dy, c);
  });
}

}  // namespace twofold::cuda
