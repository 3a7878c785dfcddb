// Layer normalisation (Ba et al. 2016): y = gamma * xhat + beta with xhat = (x - mean) * rstd over each row.
#include <cmath>

#include "kernels/cuda/norm_rows.h"

namespace twofold::cuda {
namespace {

template <class T>
struct ForwardOf {
  const T *x, *gamma, *beta, *branch;  // branch, sum: null if there is no branch
  T *y, *sum;
  Wide<T>*mean, *rstd;
  int64_t rows;
  int columns;
  Wide<T> eps;
};

template <class T, RowKind kKind, bool kPacked>
__global__ void __launch_bounds__(kThreadsOfRow) Forward(ForwardOf<T> o) {
  using A = Wide<T>;
  using Part = RowPart<T, kKind, kPacked>;
  const int64_t row = RowOfThread<kKind>();
  if (row >= o.rows) return;  // the whole warp returns
  const Part part(o.columns);
  typename Part::Held x;
  part.Load(o.x + row * o.columns, x);
  if (o.branch != nullptr) part.Add(o.branch + row * o.columns, o.sum + row * o.columns, x);
  A sum = 0, squares = 0;
  part.ForEach([&](int k, int i, int) { sum += As<A>(x.packs[k].at[i]); });
  const A mean = part.Sum(sum) / static_cast<A>(o.columns);
  // Computed from differences: the sum of squares would suffer from cancellation.
  part.ForEach([&](int k, int i, int) {
    const A d = As<A>(x.packs[k].at[i]) - mean;
    squares += d * d;
  });
  const A rstd = A(1) / std::sqrt(part.Sum(squares) / static_cast<A>(o.columns) + o.eps);
  if (threadIdx.x % (kKind == RowKind::kOfWarp ? kWarp : blockDim.x) == 0) o.mean[row] = mean, o.rstd[row] = rstd;
  T* y = o.y + row * o.columns;
  part.ForPacks([&](int k, int column, int count) {
    A gamma[Part::kPack], beta[Part::kPack], out[Part::kPack];
    part.Some(o.gamma, column, count, gamma);
    part.Some(o.beta, column, count, beta);
#pragma unroll
    for (int i = 0; i < Part::kPack; ++i) out[i] = (As<A>(x.packs[k].at[i]) - mean) * rstd * gamma[i] + beta[i];
    StoreSome(y + column, kPacked, count, out);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreadsOfLongRow) ForwardLong(ForwardOf<T> o) {
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
  A sum = 0, squares = 0;
#pragma unroll 8
  for (int i = first; i < o.columns; i += step) sum += As<A>(x[i]);
  const A mean = BlockSum(sum) / static_cast<A>(o.columns);
#pragma unroll 8
  for (int i = first; i < o.columns; i += step) squares += (As<A>(x[i]) - mean) * (As<A>(x[i]) - mean);
  const A rstd = A(1) / std::sqrt(BlockSum(squares) / static_cast<A>(o.columns) + o.eps);
  if (first == 0) o.mean[row] = mean, o.rstd[row] = rstd;
  for (int i = first; i < o.columns; i += step)
    Store(y + i, (As<A>(x[i]) - mean) * rstd * As<A>(o.gamma[i]) + As<A>(o.beta[i]));
}

template <class T>
struct BackwardOf {
  const T *dy, *x, *gamma, *past;  // past: may be null
  const Wide<T>*mean, *rstd;
  T* dx;
  int64_t rows;
  int columns;
};

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * gamma.
template <class T, RowKind kKind, bool kPacked>
__global__ void __launch_bounds__(kThreadsOfRow) Backward(BackwardOf<T> o) {
  using A = Wide<T>;
  using Part = RowPart<T, kKind, kPacked>;
  const int64_t row = RowOfThread<kKind>();
  if (row >= o.rows) return;
  const Part part(o.columns);
  typename Part::Held x, dy;
  part.Load(o.x + row * o.columns, x);
  part.Load(o.dy + row * o.columns, dy);
  const A mean = o.mean[row], rstd = o.rstd[row];
  A g_sum = 0, gx_sum = 0;
  part.ForPacks([&](int k, int column, int count) {
    A gamma[Part::kPack];
    part.Some(o.gamma, column, count, gamma);
#pragma unroll
    for (int i = 0; i < Part::kPack; ++i) {
      if (!kPacked && i >= count) continue;
      const A g = As<A>(dy.packs[k].at[i]) * gamma[i];
      g_sum += g;
      gx_sum += g * ((As<A>(x.packs[k].at[i]) - mean) * rstd);
    }
  });
  const A g_mean = part.Sum(g_sum) / static_cast<A>(o.columns), gx_mean = part.Sum(gx_sum) / static_cast<A>(o.columns);
  T* dx = o.dx + row * o.columns;
  part.ForPacks([&](int k, int column, int count) {
    A gamma[Part::kPack], out[Part::kPack];
    part.Some(o.gamma, column, count, gamma);
#pragma unroll
    for (int i = 0; i < Part::kPack; ++i) {
      out[i] =
          rstd * (As<A>(dy.packs[k].at[i]) * gamma[i] - g_mean - (As<A>(x.packs[k].at[i]) - mean) * rstd * gx_mean);
    }
    AddPast(o.past == nullptr ? nullptr : o.past + row * o.columns + column, kPacked, count, out);
    StoreSome(dx + column, kPacked, count, out);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreadsOfLongRow) BackwardLong(BackwardOf<T> o) {
  using A = Wide<T>;
  const int64_t row = blockIdx.x, at = row * o.columns;
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  const A mean = o.mean[row], rstd = o.rstd[row];
  A g_sum = 0, gx_sum = 0;
#pragma unroll 4
  for (int i = first; i < o.columns; i += step) {
    const A g = As<A>(o.dy[at + i]) * As<A>(o.gamma[i]);
    g_sum += g;
    gx_sum += g * ((As<A>(o.x[at + i]) - mean) * rstd);
  }
  const A g_mean = BlockSum(g_sum) / static_cast<A>(o.columns), gx_mean = BlockSum(gx_sum) / static_cast<A>(o.columns);
  for (int i = first; i < o.columns; i += step) {
    const A g = As<A>(o.dy[at + i]) * As<A>(o.gamma[i]);
    const A dx = rstd * (g - g_mean - (As<A>(o.x[at + i]) - mean) * rstd * gx_mean);
    Store(o.dx + at + i, o.past == nullptr ? dx : Plus(dx, As<A>(o.past[at + i])));
  }
}

}  // namespace

void Compute(const ops::LayerNormForward& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    using A = Wide<T>;
    const int64_t columns = Columns(o.x);
    const ForwardOf<T> of{
        At<T>(o.x),    At<T>(o.gamma), At<T>(o.beta), At<T>(o.branch),           At<T>(o.y),           At<T>(o.sum),
        At<A>(o.mean), At<A>(o.rstd),  Rows(o.x),     static_cast<int>(columns), static_cast<A>(o.eps)};
    const bool packs = PacksFit(kPerLoad<T>, columns, {&o.x, &o.gamma, &o.beta, &o.y, &o.branch, &o.sum});
    ForRows<T>(of.rows, columns, packs, [&]<RowKind kKind, bool kPacked>(unsigned grid, unsigned block) {
      if constexpr (kKind == RowKind::kLong)
        Launch(ForwardLong<T>, dim3(grid), dim3(block), 0, c.stream, of);
      else
        Launch(Forward<T, kKind, kPacked>, dim3(grid), dim3(block), 0, c.stream, of);
    });
  });
}

void Compute(const ops::LayerNormBackward& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    using A = Wide<T>;
    const int64_t columns = Columns(o.x);
    const BackwardOf<T> of{At<T>(o.dy),   At<T>(o.x),    At<T>(o.gamma),
                           At<T>(o.past), At<A>(o.mean), At<A>(o.rstd),
                           At<T>(o.dx),   Rows(o.x),     static_cast<int>(columns)};
    const bool packs = PacksFit(kPerLoad<T>, columns, {&o.dy, &o.x, &o.gamma, &o.dx, &o.past});
    ForRows<T>(of.rows, columns, packs, [&]<RowKind kKind, bool kPacked>(unsigned grid, unsigned block) {
      if constexpr (kKind == RowKind::kLong)
        Launch(BackwardLong<T>, dim3(grid), dim3(block), 0, c.stream, of);
      else
        Launch(Backward<T, kKind, kPacked>, dim3(grid), dim3(block), 0, c.stream, of);
    });
  });
}

}  // namespace twofold::cuda
