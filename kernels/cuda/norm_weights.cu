// Gradients of norm weights, summed over rows.
#include "kernels/cuda/column_reduce.h"

namespace twofold::cuda {
namespace {

// dgamma: dy * xhat; dbeta: dy.
template <class T>
struct LayerNormTerms {
  const T *dy, *x;
  const Wide<T>*mean, *rstd;
  int64_t columns;
  template <int N>
  __device__ void operator()(int64_t row, int64_t column, bool whole, int64_t count, Wide<T> (&sums)[2][N]) const {
    const int64_t at = row * columns + column;
    Wide<T> d[N], v[N];
    LoadSome(dy + at, whole, count, d);
    LoadSome(x + at, whole, count, v);
    const Wide<T> m = mean[row], r = rstd[row];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sums[0][i] += d[i] * ((v[i] - m) * r);
      sums[1][i] += d[i];
    }
  }
};

template <class T>
struct RmsNormTerms {
  const T *dy, *x;
  const Wide<T>* rstd;
  int64_t columns;
  template <int N>
  __device__ void operator()(int64_t row, int64_t column, bool whole, int64_t count, Wide<T> (&sums)[1][N]) const {
    const int64_t at = row * columns + column;
    Wide<T> d[N], v[N];
    LoadSome(dy + at, whole, count, d);
    LoadSome(x + at, whole, count, v);
    const Wide<T> r = rstd[row];
#pragma unroll
    for (int i = 0; i < N; ++i) sums[0][i] += d[i] * (v[i] * r);
  }
};

}  // namespace

void Compute(const ops::LayerNormWeights& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    const int64_t columns = Columns(o.x);
    const LayerNormTerms<T> terms{At<T>(o.dy), At<T>(o.x), At<Wide<T>>(o.mean), At<Wide<T>>(o.rstd), columns};
    ReduceColumns<2, T>(terms, PacksFit(kPerLoad<T>, columns, {&o.dy, &o.x}), Rows(o.x), columns, {o.dgamma, o.dbeta},
                        o.accumulate, c);
  });
}

void Compute(const ops::RmsNormWeights& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    const int64_t columns = Columns(o.x);
    const RmsNormTerms<T> terms{At<T>(o.dy), At<T>(o.x), At<Wide<T>>(o.rstd), columns};
    ReduceColumns<1, T>(terms, PacksFit(kPerLoad<T>, columns, {&o.dy, &o.x}), Rows(o.x), columns, {o.dgamma},
                        o.accumulate, c);
  });
}

}  // namespace twofold::cuda
