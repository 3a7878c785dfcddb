// Gradients of norm weights, summed over rows.
#include "kernels/cuda/column_reduce.h"

namespace twofold::cuda {
namespace {

// sums[0], dgamma: dy * xhat; sums[1], dbeta: dy. Root-mean-square normalisation (kCentred false) has neither mean nor
// beta.
template <class T, bool kCentred>
struct NormTerms {
  const T *dy, *x;
  const Wide<T>*mean, *rstd;
  int64_t columns;
  template <int N>
  __device__ void operator()(int64_t row, int64_t column, bool whole, int64_t count,
                             Wide<T> (&sums)[kCentred ? 2 : 1][N]) const {
    const int64_t at = row * columns + column;
    Wide<T> d[N], v[N];
    LoadSome(dy + at, whole, count, d);
    LoadSome(x + at, whole, count, v);
    const Wide<T> m = kCentred ? mean[row] : Wide<T>(0), r = rstd[row];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sums[0][i] += d[i] * ((kCentred ? v[i] - m : v[i]) * r);
      if constexpr (kCentred) sums[1][i] += d[i];
    }
  }
};

}  // namespace

void Compute(const ops::LayerNormWeights& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    const int64_t columns = Columns(o.x);
    const NormTerms<T, true> terms{At<T>(o.dy), At<T>(o.x), At<Wide<T>>(o.mean), At<Wide<T>>(o.rstd), columns};
    ReduceColumns<2, T>(terms, PacksFit(kPerLoad<T>, columns, {&o.dy, &o.x}), Rows(o.x), columns, {o.dgamma, o.dbeta},
                        o.accumulate, c);
  });
}

void Compute(const ops::RmsNormWeights& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    const int64_t columns = Columns(o.x);
    const NormTerms<T, false> terms{At<T>(o.dy), At<T>(o.x), nullptr, At<Wide<T>>(o.rstd), columns};
    ReduceColumns<1, T>(terms, PacksFit(kPerLoad<T>, columns, {&o.dy, &o.x}), Rows(o.x), columns, {o.dgamma},
                        o.accumulate, c);
  });
}

}  // namespace twofold::cuda
