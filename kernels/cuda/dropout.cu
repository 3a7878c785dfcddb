// Dropout. It keeps the same elements as on a CPU, bit for bit.
#include <cmath>

#include "kernels/cuda/draws.h"
#include "kernels/cuda/functions.h"
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

// Element i is kept if UniformAt(key, where.Of(i)) >= p, that is, if its upper 24 bits are at least `least`.
template <class T>
struct DropElements {
  const T* x;
  T* y;
  uint8_t* mask;  // may be null
  Wide<T> scale;
  uint32_t least;
  PhiloxKey key;
  ops::IndexMap where;
  template <int N>
  struct Loaded {
    Raw<T, N> x;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t first) const {
    return {LoadRaw<N>(x + first)};
  }
  template <int N>
  __device__ void Finish(int64_t first, const Loaded<N>& loaded) const {
    uint32_t bits[N];
    Draw(key, where, first, bits);
    Wide<T> kept[N];
    Pack<uint8_t, N> keep;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      keep.at[i] = bits[i] >> 8 >= least;
      kept[i] = keep.at[i] != 0 ? As<Wide<T>>(loaded.x[i]) * scale : Wide<T>(0);
    }
    StorePack(y + first, kept);
    if (mask != nullptr) *reinterpret_cast<Pack<uint8_t, N>*>(mask + first) = keep;
  }
};

template <class A>
struct ScaleKept {
  A scale;
  __device__ A operator()(A dy, A keep) const { return keep != 0 ? dy * scale : A(0); }
};

template <class Op>
void Drop(const Op& o, const Tensor& mask, const Context& c) {
  // The smallest number whose ToUniform is at least p; for p = 1 it is 2^24, which no number reaches. Exact: p is a
  // float.
  const auto least = static_cast<uint32_t>(std::ceil(std::min(std::max(static_cast<float>(o.p), 0.f), 1.f) * 0x1p24f));
  ForFloat(o.x.dtype(), [&]<class T>() {
    const DropElements<T> f{At<T>(o.x), At<T>(o.y), At<uint8_t>(mask), static_cast<Wide<T>>(1 / (1 - o.p)), least,
                            o.key,      o.where};
    constexpr int kN = PackOf<T>;
    Sweep<kN>(f, o.x.numel(), PacksFit(kN, kN, {&o.x, &o.y, &mask}) && DrawsFit(kN, o.where), c);
  });
}

}  // namespace

void Compute(const ops::Dropout& o, const Context& c) { Drop(o, Tensor(), c); }
void Compute(const ops::MaskedDropoutForward& o, const Context& c) { Drop(o, o.mask, c); }

void Compute(const ops::MaskedDropoutBackward& o, const Context& c) {
  ForFloat(o.dy.dtype(), [&]<class T>() {
    Map<T, T, uint8_t>(o.dx, ScaleKept<Wide<T>>{static_cast<Wide<T>>(1 / (1 - o.p))}, o.dy, o.mask, c);
  });
}

}  // namespace twofold::cuda
