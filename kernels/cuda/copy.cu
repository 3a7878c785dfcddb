// Copies columns of rows into columns of other rows.
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

template <class In, class Out, bool kAdd>
struct CopyPieces {
  const In* in;
  Out* out;
  int64_t in_columns, out_columns;
  using A = std::conditional_t<sizeof(In) == 8, double, Wide<Out>>;
  template <int N>
  struct Loaded {
    Raw<In, N> in;
    Raw<Out, kAdd ? N : 1> old;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t row, int64_t column) const {
    Loaded<N> loaded;
    loaded.in = LoadRaw<N>(in + row * in_columns + column);
    if constexpr (kAdd) loaded.old = LoadRaw<N>(out + row * out_columns + column);
    return loaded;
  }
  template <int N>
  __device__ void Finish(int64_t row, int64_t column, const Loaded<N>& loaded) const {
    A y[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      y[i] = As<A>(loaded.in[i]);
      if constexpr (kAdd) y[i] += As<A>(loaded.old[i]);
    }
    StorePack(out + row * out_columns + column, y);
  }
};

}  // namespace

void Compute(const ops::CopyColumns& o, const Context& c) {
  if (o.columns == 0) return;
  ForFloat(o.in.dtype(), [&]<class In>() {
    ForFloat(o.out.dtype(), [&]<class Out>() {
      constexpr int kN = PackOf<In, Out>;
      const bool even =
          o.in_column % kN == 0 && o.out_column % kN == 0 && Columns(o.in) % kN == 0 && Columns(o.out) % kN == 0;
      const bool packs = even && PacksFit(kN, o.columns, {&o.in, &o.out});
      const auto copy = [&](auto f) { SweepRows<kN>(f, Rows(o.in), o.columns, packs, c); };
      const In* in = At<In>(o.in) + o.in_column;
      Out* out = At<Out>(o.out) + o.out_column;
      if (o.accumulate)
        copy(CopyPieces<In, Out, true>{in, out, Columns(o.in), Columns(o.out)});
      else
        copy(CopyPieces<In, Out, false>{in, out, Columns(o.in), Columns(o.out)});
    });
  });
}

}  // namespace twofold::cuda
