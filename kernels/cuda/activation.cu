// ReLU, GELU and squared ReLU.
#include "kernels/cuda/functions.h"
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

struct Relu {
  template <class A>
  __device__ A operator()(A x) const {
    return x > 0 ? x : A(0);
  }
};
template <class T>
struct Gelu {
  __device__ Wide<T> operator()(Wide<T> x) const { return x * GeluGate<T>(x); }
};
struct SquaredRelu {
  template <class A>
  __device__ A operator()(A x) const {
    return x > 0 ? x * x : A(0);
  }
};

struct ReluSlope {
  template <class A>
  __device__ A operator()(A x, A dy) const {
    return x > 0 ? dy : A(0);
  }
};
template <class T>
struct GeluGradient {
  __device__ Wide<T> operator()(Wide<T> x, Wide<T> dy) const { return dy * GeluSlope<T>(x); }
};
struct SquaredReluGradient {
  template <class A>
  __device__ A operator()(A x, A dy) const {
    return x > 0 ? A(2) * x * dy : A(0);
  }
};

}  // namespace

void Compute(const ops::ActivationForward& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    if (o.kind == ops::ActivationForward::kRelu) return Map<T, T>(o.y, Relu(), o.x, c);
    if (o.kind == ops::ActivationForward::kSquaredRelu) return Map<T, T>(o.y, SquaredRelu(), o.x, c);
    Map<T, T>(o.y, Gelu<T>(), o.x, c);
  });
}

void Compute(const ops::ActivationBackward& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    if (o.kind == ops::ActivationForward::kRelu) return Map<T, T, T>(o.dx, ReluSlope(), o.x, o.dy, c);
    if (o.kind == ops::ActivationForward::kSquaredRelu) return Map<T, T, T>(o.dx, SquaredReluGradient(), o.x, o.dy, c);
    Map<T, T, T>(o.dx, GeluGradient<T>(), o.x, o.dy, c);
  });
}

}  // namespace twofold::cuda
