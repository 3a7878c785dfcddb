// Initial values: equal to the CPU's, except for the last bits of normal numbers, which depend on logarithm, sine and
// cosine.
#include "kernels/cuda/draws.h"
#include "kernels/cuda/functions.h"
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

// Same as NormalAt.
__device__ inline float NormalOf(PhiloxKey key, uint64_t place) {
  const std::array<uint32_t, 4> four = Philox(key, place / 4);
  const uint64_t pair = place & 2;
  const double u = (static_cast<double>(LaneOf(four, pair)) + 1.0) * 0x1p-32;
  const double angle = 6.283185307179586 * static_cast<double>(LaneOf(four, pair + 1)) * 0x1p-32;
  return static_cast<float>(sqrt(-2.0 * log(u)) * (place % 2 == 0 ? cos(angle) : sin(angle)));
}

template <class T, bool kNormal>
struct DrawElements : LoadsNothing {
  T* out;
  double offset, factor;
  PhiloxKey key;
  ops::IndexMap where;
  template <int N>
  __device__ void Finish(int64_t first, const Loaded<N>&) const {
    static_assert(N == 1);
    const uint64_t place = PlaceIn(where, first);
    const float drawn = kNormal ? NormalOf(key, place) : ToUniform(LaneOf(Philox(key, place / 4), place));
    Store(out + first, Plus(offset, Product(factor, static_cast<double>(drawn))));
  }
};

}  // namespace

void Compute(const ops::RandomFill& o, const Context& c) {
  ForFloat(o.out.dtype(), [&]<class T>() {
    T* out = At<T>(o.out);
    if (o.distribution == ops::RandomFill::kNormal)
      Sweep<1>(DrawElements<T, true>{{}, out, o.a, o.b, o.key, o.where}, o.out.numel(), false, c);
    else
      Sweep<1>(DrawElements<T, false>{{}, out, o.a, o.b - o.a, o.key, o.where}, o.out.numel(), false, c);
  });
}

}  // namespace twofold::cuda
