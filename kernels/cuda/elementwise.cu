// Fill, cast, sums of two, scaling.
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

// Same as ConvertTo of kernels/cpu/convert.h: BF16 and F16 are converted through float; floats become integers by
// truncation.
template <class To, class From>
__device__ inline To ConvertTo(From x) {
  if constexpr (std::is_same_v<From, Bf16> || std::is_same_v<From, Half>)
    return ConvertTo<To>(ToFloat(x));
  else if constexpr (std::is_same_v<To, Bf16>)
    return ToBf16(static_cast<float>(x));
  else if constexpr (std::is_same_v<To, Half>)
    return ToHalf(static_cast<float>(x));
  else
    return static_cast<To>(x);
}

template <class T>
struct FillWith : LoadsNothing {
  T* out;
  double value;
  template <int N>
  __device__ void Finish(int64_t first, const Loaded<N>&) const {
    Pack<T, N> pack;
    const T x = ConvertTo<T>(value);
#pragma unroll
    for (int i = 0; i < N; ++i) pack.at[i] = x;
    *reinterpret_cast<Pack<T, N>*>(out + first) = pack;
  }
};

template <class To, class From>
struct CastTo {
  To* out;
  const From* in;
  template <int N>
  struct Loaded {
    Raw<From, N> in;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t first) const {
    return {LoadRaw<N>(in + first)};
  }
  template <int N>
  __device__ void Finish(int64_t first, const Loaded<N>& loaded) const {
    Pack<To, N> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) pack.at[i] = ConvertTo<To>(loaded.in[i]);
    *reinterpret_cast<Pack<To, N>*>(out + first) = pack;
  }
};

template <class A>
struct TimesPlus {
  A scale, shift;
  __device__ A operator()(A x) const { return scale * x + shift; }
};
struct PlusRelu {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return a + b > 0 ? a + b : A(0);
  }
};
template <class A>
struct Times {
  double factor;
  const A* by;  // may be null
  __device__ A operator()(A x) const {
    return static_cast<A>(by == nullptr ? factor : factor * static_cast<double>(*by)) * x;
  }
};

}  // namespace

void Compute(const ops::Fill& o, const Context& c) {
  ForType(o.out.dtype(), [&]<class T>() {
    constexpr int kN = PackOf<T>;
    Sweep<kN, 4>(FillWith<T>{{}, At<T>(o.out), o.value}, o.out.numel(), PacksFit(kN, kN, {&o.out}), c);
  });
}

void Compute(const ops::Cast& o, const Context& c) {
  if (o.in.dtype() == o.out.dtype()) {
    if (o.in.address() == o.out.address() || o.in.numel() == 0) return;
    const auto bytes = static_cast<size_t>(o.in.bytes().value());
    return Check(cudaMemcpyAsync(At<void>(o.out), At<void>(o.in), bytes, cudaMemcpyDeviceToDevice, c.stream));
  }
  ForType(o.in.dtype(), [&]<class From>() {
    ForType(o.out.dtype(), [&]<class To>() {
      if constexpr (!std::is_same_v<From, To>) {
        constexpr int kN = PackOf<From, To>;
        Sweep<kN, 4>(CastTo<To, From>{At<To>(o.out), At<From>(o.in)}, o.in.numel(), PacksFit(kN, kN, {&o.in, &o.out}),
                     c);
      }
    });
  });
}

void Compute(const ops::Affine& o, const Context& c) {
  ForFloat(o.out.dtype(), [&]<class Out>() {
    const TimesPlus<Wide<Out>> body{static_cast<Wide<Out>>(o.scale), static_cast<Wide<Out>>(o.shift)};
    ForType(o.in.dtype(), [&]<class In>() { Map<Out, In>(o.out, body, o.in, c); });
  });
}

void Compute(const ops::Add& o, const Context& c) {
  ForFloat(o.out.dtype(), [&]<class T>() { Map<T, T, T>(o.out, PlusOf(), o.a, o.b, c); });
}

void Compute(const ops::AddRelu& o, const Context& c) {
  ForFloat(o.out.dtype(), [&]<class T>() { Map<T, T, T>(o.out, PlusRelu(), o.a, o.b, c); });
}

void Compute(const ops::AddTo& o, const Context& c) {
  ForFloat(o.out.dtype(), [&]<class Out>() {
    ForFloat(o.in.dtype(), [&]<class In>() { Map<Out, Out, In>(o.out, PlusOf(), o.out, o.in, c); });
  });
}

void Compute(const ops::Scale& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() { Map<T, T>(o.x, Times<Wide<T>>{o.factor, At<Wide<T>>(o.by)}, o.x, c); });
}

}  // namespace twofold::cuda
