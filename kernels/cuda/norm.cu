// Layer normalisation (Ba et al. 2016): y = gamma * xhat + beta with xhat = (x - mean) * rstd over each row. And
// root-mean-square normalisation (Zhang and Sennrich 2019), which has neither mean nor beta (kCentred false).
#include <cmath>

#include "kernels/cuda/norm_rows.h"

namespace twofold::cuda {
namespace {

template <bool kCentred, class A>
__device__ inline A Centred(A x, A mean) {
  return kCentred ? x - mean : x;
}

template <class T>
struct ForwardOf {
  const T *x, *gamma, *beta, *branch;  // beta, mean: null if not centred; branch, sum: null if there is no branch
  T *y, *sum;
  Wide<T>*mean, *rstd;
  int64_t rows;
  int columns;
  Wide<T> eps;
};

template <class T, bool kCentred, RowKind kKind, bool kPacked>
__global__ void __launch_bounds__(kThreadsOfRow) NormaliseRows(ForwardOf<T> o) {
  using A = Wide<T>;
  using Part = RowPart<T, kKind, kPacked>;
  const int64_t row = RowOfThread<kKind>();
  if (row >= o.rows) return;  // the whole warp returns
  const Part part(o.columns);
  typename Part::Held x;
  part.Load(o.x + row * o.columns, x);
  if (o.branch != nullptr) part.Add(o.branch + row * o.columns, o.sum + row * o.columns, x);
  A mean = 0, squares = 0;
  if constexpr (kCentred) {
    A sum = 0;
    part.ForEach([&](int k, int i, int) { sum += As<A>(x.packs[k].at[i]); });
    mean = part.Sum(sum) / static_cast<A>(o.columns);
  }
  // Computed from differences: the sum of squares would suffer from cancellation.
  part.ForEach([&](int k, int i, int) {
    const A d = Centred<kCentred>(As<A>(x.packs[k].at[i]), mean);
    squares += d * d;
  });
  const A rstd = A(1) / std::sqrt(part.Sum(squares) / static_cast<A>(o.columns) + o.eps);
  if (threadIdx.x % (kKind == RowKind::kOfWarp ? kWarp : blockDim.x) == 0) {
    if constexpr (kCentred) o.mean[row] = mean;
    o.rstd[row] = rstd;
  }
  T* y = o.y + row * o.columns;
  part.ForPacks([&](int k, int column, int count) {
    A gamma[Part::kPack], beta[Part::kPack], out[Part::kPack];
    part.Some(o.gamma, column, count, gamma);
    if constexpr (kCentred) part.Some(o.beta, column, count, beta);
#pragma unroll
    for (int i = 0; i < Part::kPack; ++i) {
      out[i] = Centred<kCentred>(As<A>(x.packs[k].at[i]), mean) * rstd * gamma[i];
      if constexpr (kCentred) out[i] += beta[i];
    }
    StoreSome(y + column, kPacked, count, out);
  });
}

template <class T, bool kCentred>
__global__ void __launch_bounds__(kThreadsOfLongRow) NormaliseLongRows(ForwardOf<T> o) {
  using A = Wide<T>;
  const int64_t row = blockIdx.x;
  const T* x = o.x + row * o.columns;
  T* y = o.y + row * o.columns;
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  if (o.branch != nullptr) {
    T* const sum = o.sum + row * o.columns;
    for (int i = first; i < o.columns; i += step) Store(sum + i, As<A>(x[i]) + As<A>(o.branch[row * o.columns + i]));
    x = sum;  // each thread reads only what it wrote
  }
  A mean = 0, squares = 0;
  if constexpr (kCentred) {
    A sum = 0;
#pragma unroll 8
    for (int i = first; i < o.columns; i += step) sum += As<A>(x[i]);
    mean = BlockSum(sum) / static_cast<A>(o.columns);
  }
#pragma unroll 8
  for (int i = first; i < o.columns; i += step) {
    const A d = Centred<kCentred>(As<A>(x[i]), mean);
    squares += d * d;
  }
  const A rstd = A(1) / std::sqrt(BlockSum(squares) / static_cast<A>(o.columns) + o.eps);
  if (first == 0) {
    if constexpr (kCentred) o.mean[row] = mean;
    o.rstd[row] = rstd;
  }
  for (int i = first; i < o.columns; i += step) {
    A out = Centred<kCentred>(As<A>(x[i]), mean) * rstd * As<A>(o.gamma[i]);
    if constexpr (kCentred) out += As<A>(o.beta[i]);
    Store(y + i, out);
  }
}

template <class T>
struct BackwardOf {
  const T *dy, *x, *gamma, *past;  // past: may be null
  const Wide<T>*mean, *rstd;       // mean: null if not centred
  T* dx;
  int64_t rows;
  int columns;
};

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * gamma; without mean(g) if not centred.
template <class T, bool kCentred, RowKind kKind, bool kPacked>
__global__ void __launch_bounds__(kThreadsOfRow) NormaliseRowsBackward(BackwardOf<T> o) {
  using A = Wide<T>;
  using Part = RowPart<T, kKind, kPacked>;
  const int64_t row = RowOfThread<kKind>();
  if (row >= o.rows) return;
  const Part part(o.columns);
  typename Part::Held x, dy;
  part.Load(o.x + row * o.columns, x);
  part.Load(o.dy + row * o.columns, dy);
  const A mean = kCentred ? o.mean[row] : A(0), rstd = o.rstd[row];
  A g_sum = 0, gx_sum = 0, g_mean = 0;
  part.ForPacks([&](int k, int column, int count) {
    A gamma[Part::kPack];
    part.Some(o.gamma, column, count, gamma);
#pragma unroll
    for (int i = 0; i < Part::kPack; ++i) {
      if (!kPacked && i >= count) continue;
      const A g = As<A>(dy.packs[k].at[i]) * gamma[i];
      g_sum += g;
      gx_sum += g * (Centred<kCentred>(As<A>(x.packs[k].at[i]), mean) * rstd);
    }
  });
  if constexpr (kCentred) g_mean = part.Sum(g_sum) / static_cast<A>(o.columns);
  const A gx_mean = part.Sum(gx_sum) / static_cast<A>(o.columns);
  T* dx = o.dx + row * o.columns;
  part.ForPacks([&](int k, int column, int count) {
    A gamma[Part::kPack], out[Part::kPack];
    part.Some(o.gamma, column, count, gamma);
#pragma unroll
    for (int i = 0; i < Part::kPack; ++i) {
      const A g = Centred<kCentred>(As<A>(dy.packs[k].at[i]) * gamma[i], g_mean);
      out[i] = rstd * (g - Centred<kCentred>(As<A>(x.packs[k].at[i]), mean) * rstd * gx_mean);
    }
    AddPast(o.past == nullptr ? nullptr : o.past + row * o.columns + column, kPacked, count, out);
    StoreSome(dx + column, kPacked, count, out);
  });
}

template <class T, bool kCentred>
__global__ void __launch_bounds__(kThreadsOfLongRow) NormaliseLongRowsBackward(BackwardOf<T> o) {
  using A = Wide<T>;
  const int64_t row = blockIdx.x, at = row * o.columns;
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  const A mean = kCentred ? o.mean[row] : A(0), rstd = o.rstd[row];
  A g_sum = 0, gx_sum = 0, g_mean = 0;
#pragma unroll 4
  for (int i = first; i < o.columns; i += step) {
    const A g = As<A>(o.dy[at + i]) * As<A>(o.gamma[i]);
    g_sum += g;
    gx_sum += g * (Centred<kCentred>(As<A>(o.x[at + i]), mean) * rstd);
  }
  if constexpr (kCentred) g_mean = BlockSum(g_sum) / static_cast<A>(o.columns);
  const A gx_mean = BlockSum(gx_sum) / static_cast<A>(o.columns);
  for (int i = first; i < o.columns; i += step) {
    const A g = Centred<kCentred>(As<A>(o.dy[at + i]) * As<A>(o.gamma[i]), g_mean);
    const A dx = rstd * (g - Centred<kCentred>(As<A>(o.x[at + i]), mean) * rstd * gx_mean);
    Store(o.dx + at + i, o.past == nullptr ? dx : Plus(dx, As<A>(o.past[at + i])));
  }
}

template <bool kCentred, class Op>
void NormForward(const Op& o, const Tensor& beta, const Tensor& mean, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    using A = Wide<T>;
    const int64_t columns = Columns(o.x);
    const ForwardOf<T> of{
        At<T>(o.x),  At<T>(o.gamma), At<T>(beta), At<T>(o.branch),           At<T>(o.y),           At<T>(o.sum),
        At<A>(mean), At<A>(o.rstd),  Rows(o.x),   static_cast<int>(columns), static_cast<A>(o.eps)};
    const bool packs = PacksFit(kPerLoad<T>, columns, {&o.x, &o.gamma, &beta, &o.y, &o.branch, &o.sum});
    ForRows<T>(of.rows, columns, packs, [&]<RowKind kKind, bool kPacked>(unsigned grid, unsigned block) {
      if constexpr (kKind == RowKind::kLong)
        Launch(NormaliseLongRows<T, kCentred>, dim3(grid), dim3(block), 0, c.stream, of);
      else
        Launch(NormaliseRows<T, kCentred, kKind, kPacked>, dim3(grid), dim3(block), 0, c.stream, of);
    });
  });
}

template <bool kCentred, class Op>
void NormBackward(const Op& o, const Tensor& mean, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    using A = Wide<T>;
    const int64_t columns = Columns(o.x);
    const BackwardOf<T> of{At<T>(o.dy), At<T>(o.x), At<T>(o.gamma),           At<T>(o.past), At<A>(mean), At<A>(o.rstd),
                           At<T>(o.dx), Rows(o.x),  static_cast<int>(columns)};
    const bool packs = PacksFit(kPerLoad<T>, columns, {&o.dy, &o.x, &o.gamma, &o.dx, &o.past});
    ForRows<T>(of.rows, columns, packs, [&]<RowKind kKind, bool kPacked>(unsigned grid, unsigned block) {
      if constexpr (kKind == RowKind::kLong)
        Launch(NormaliseLongRowsBackward<T, kCentred>, dim3(grid), dim3(block), 0, c.stream, of);
      else
        Launch(NormaliseRowsBackward<T, kCentred, kKind, kPacked>, dim3(grid), dim3(block), 0, c.stream, of);
    });
  });
}

}  // namespace

void Compute(const ops::LayerNormForward& o, const Context& c) { NormForward<true>(o, o.beta, o.mean, c); }
void Compute(const ops::LayerNormBackward& o, const Context& c) { NormBackward<true>(o, o.mean, c); }
void Compute(const ops::RmsNormForward& o, const Context& c) { NormForward<false>(o, Tensor(), Tensor(), c); }
void Compute(const ops::RmsNormBackward& o, const Context& c) { NormBackward<false>(o, Tensor(), c); }

}  // namespace twofold::cuda
