// Fill, cast, sums of two tensors, scaling, activations.
#include <algorithm>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

// GELU in its tanh form (Hendrycks and Gimpel 2016), x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3),
// written as x / (1 + e^(-2u)).
constexpr double kTwoRootTwoOverPi = 1.5957691216057308, kCubic = 0.044715;

template <class A>
A GeluGate(A x) {
  return Logistic(x * MulAdd(A(kTwoRootTwoOverPi * kCubic), x * x, A(kTwoRootTwoOverPi)));
}
template <class A>
A Gelu(A x) {
  return x * GeluGate(x);
}
template <class A>
A GeluSlope(A x) {
  const A gate = GeluGate(x);
  const A twice_du = MulAdd(A(3 * kTwoRootTwoOverPi * kCubic), x * x, A(kTwoRootTwoOverPi));
  // The gate factors are multiplied first: for large |x| they vanish, while the other factor does not.
  return MulAdd(x * (gate * (A(1) - gate)), twice_du, gate);
}

}  // namespace

void Compute(const ops::Fill& o, Context& c) {
  VisitType(o.out.dtype(), [&]<class T>() {
    T* out = o.out.data<T>();
    const T value = ConvertTo<T>(o.value);
    ForChunks(c.pool, o.out.numel(), [&](int64_t first, int64_t count) { std::fill_n(out + first, count, value); });
  });
}

void Compute(const ops::Cast& o, Context& c) {
  ForChunks(c.pool, o.in.numel(), [&](int64_t first, int64_t count) {
    Convert(AddressOf(o.in, first), o.in.dtype(), AddressOf(o.out, first), o.out.dtype(), count);
  });
}

void Compute(const ops::Affine& o, Context& c) {
  VisitWide(o.out.dtype(), [&]<class A>() {
    const A scale = static_cast<A>(o.scale), shift = static_cast<A>(o.shift);
    Map<A>(c.pool, o.out, o.in, [=](A x) { return scale * x + shift; });
  });
}

void Compute(const ops::Add& o, Context& c) {
  VisitWide(o.out.dtype(), [&]<class A>() { Map<A>(c.pool, o.out, o.a, o.b, [](A a, A b) { return a + b; }); });
}

void Compute(const ops::AddRelu& o, Context& c) {
  VisitWide(o.out.dtype(),
            [&]<class A>() { Map<A>(c.pool, o.out, o.a, o.b, [](A a, A b) { return a + b > 0 ? a + b : A(0); }); });
}

void Compute(const ops::AddTo& o, Context& c) {
  VisitWide(o.out.dtype(), [&]<class A>() { Map<A>(c.pool, o.out, o.out, o.in, [](A a, A b) { return a + b; }); });
}

void Compute(const ops::Scale& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    const A factor = static_cast<A>(o.factor * (o.by.empty() ? 1.0 : static_cast<double>(*o.by.data<A>())));
    Map<A>(c.pool, o.x, o.x, [factor](A x) { return factor * x; });
  });
}

void Compute(const ops::ActivationForward& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    switch (o.kind) {
      case ops::ActivationForward::kRelu: return Map<A>(c.pool, o.y, o.x, [](A x) { return x > 0 ? x : A(0); });
      case ops::ActivationForward::kGelu: return Map<A>(c.pool, o.y, o.x, [](A x) { return Gelu(x); });
      case ops::ActivationForward::kSquaredRelu:
        return Map<A>(c.pool, o.y, o.x, [](A x) { return x > 0 ? x * x : A(0); });
    }
  });
}

void Compute(const ops::ActivationBackward& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    switch (o.kind) {
      case ops::ActivationForward::kRelu:
        return Map<A>(c.pool, o.dx, o.x, o.dy, [](A x, A dy) { return x > 0 ? dy : A(0); });
      case ops::ActivationForward::kGelu:
        return Map<A>(c.pool, o.dx, o.x, o.dy, [](A x, A dy) { return dy * GeluSlope(x); });
      case ops::ActivationForward::kSquaredRelu:
        return Map<A>(c.pool, o.dx, o.x, o.dy, [](A x, A dy) { return x > 0 ? A(2) * x * dy : A(0); });
    }
  });
}

}  // namespace twofold::cpu
