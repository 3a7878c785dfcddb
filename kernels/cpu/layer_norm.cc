// Layer normalisation (Ba et al. 2016): y = gamma * xhat + beta with xhat = (x - mean) * rstd over each row.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

template <class A>
void NormaliseRow(const ops::LayerNormForward& o, int64_t row) {
  const int64_t columns = Columns(o.x), at = row * columns;
  const Source<A> x_of(AddedRow<A>(o.x, o.branch, o.sum, at, columns)), gamma_of(o.gamma), beta_of(o.beta);
  const Sink<A> y_of(o.y);
  A buffer[kChunk];
  const A mean = SumOfChunks<A>(columns,
                                [&](int64_t first, int64_t count) {
                                  const A* x = x_of.At(at + first, count, buffer);
                                  return SumOf<A>(count, [x](int64_t i) { return x[i]; });
                                }) /
                 static_cast<A>(columns);
  // Computes the variance from differences; the sum of squares would suffer from cancellation.
  const A variance =
      SumOfChunks<A>(columns,
                     [&](int64_t first, int64_t count) {
                       const A* x = x_of.At(at + first, count, buffer);
                       return SumOf<A>(count, [x, mean](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
                     }) /
      static_cast<A>(columns);
  const A rstd = A(1) / std::sqrt(variance + static_cast<A>(o.eps));
  o.mean.data<A>()[row] = mean;
  o.rstd.data<A>()[row] = rstd;
  InChunks(0, columns, [&](int64_t first, int64_t count) {
    A gamma[kChunk], beta[kChunk], result[kChunk];
    A* y = y_of.At(at + first, result);
    MapChunk(count, y, x_of.At(at + first, count, buffer), gamma_of.At(first, count, gamma),
             beta_of.At(first, count, beta), [mean, rstd](A x, A g, A b) { return (x - mean) * rstd * g + b; });
    y_of.Put(at + first, count, y);
  });
}

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * gamma.
template <class A>
void NormaliseRowBackward(const ops::LayerNormBackward& o, int64_t row) {
  const int64_t columns = Columns(o.x), at = row * columns;
  const Source<A> x_of(o.x), dy_of(o.dy), gamma_of(o.gamma);
  const Sink<A> dx_of(o.dx);
  const A mean = o.mean.data<A>()[row], rstd = o.rstd.data<A>()[row];
  A x_buffer[kChunk], dy_buffer[kChunk], gamma_buffer[kChunk], g_sum = 0, gx_sum = 0;
  InChunks(0, columns, [&](int64_t first, int64_t count) {
    const A* x = x_of.At(at + first, count, x_buffer);
    const A* dy = dy_of.At(at + first, count, dy_buffer);
    const A* gamma = gamma_of.At(first, count, gamma_buffer);
    g_sum += SumOf<A>(count, [=](int64_t i) { return dy[i] * gamma[i]; });
    gx_sum += SumOf<A>(count, [=](int64_t i) { return dy[i] * gamma[i] * ((x[i] - mean) * rstd); });
  });
  const A g_mean = g_sum / static_cast<A>(columns), gx_mean = gx_sum / static_cast<A>(columns);
  InChunks(0, columns, [&](int64_t first, int64_t count) {
    A result[kChunk];
    A* dx = o.past.empty() ? dx_of.At(at + first, result) : result;  // dx may alias past
    MapChunk(count, dx, x_of.At(at + first, count, x_buffer), dy_of.At(at + first, count, dy_buffer),
             gamma_of.At(first, count, gamma_buffer),
             [=](A x, A dy, A gamma) { return rstd * (dy * gamma - g_mean - (x - mean) * rstd * gx_mean); });
    AddPast(o.past, at + first, count, dx);
    dx_of.Put(at + first, count, dx);
  });
}

// dgamma = sum of dy * xhat and dbeta = sum of dy over rows, for `count` columns from `first` on. Rows are taken two at
// a time, and blocks of rows are summed separately.
template <class A>
void SumWeights(const ops::LayerNormWeights& o, int64_t first, int64_t count, A* dgamma, A* dbeta) {
  constexpr int64_t kBlock = 64;
  const int64_t columns = Columns(o.x), rows = Rows(o.x);
  const Source<A> x_of(o.x), dy_of(o.dy);
  const A* mean = o.mean.data<A>();
  const A* rstd = o.rstd.data<A>();
  A buffers[4][kChunk], gamma_block[kChunk], beta_block[kChunk];
  std::fill_n(dgamma, count, A(0));
  std::fill_n(dbeta, count, A(0));
  for (int64_t start = 0; start < rows; start += kBlock) {
    const int64_t end = std::min(rows, start + kBlock);
    std::fill_n(gamma_block, count, A(0));
    std::fill_n(beta_block, count, A(0));
    for (int64_t r = start; r < end; r += 2) {
      const int64_t s = std::min(r + 1, end - 1);
      const A* x = x_of.At(r * columns + first, count, buffers[0]);
      const A* dy = dy_of.At(r * columns + first, count, buffers[1]);
      const A* x2 = x_of.At(s * columns + first, count, buffers[2]);
      const A* dy2 = dy_of.At(s * columns + first, count, buffers[3]);
      const A m = mean[r], k = rstd[r], m2 = mean[s], k2 = rstd[s], second = s > r ? A(1) : A(0);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        const A d2 = second * dy2[i];
        gamma_block[i] += dy[i] * ((x[i] - m) * k) + d2 * ((x2[i] - m2) * k2);
        beta_block[i] += dy[i] + d2;
      }
    }
    MapChunk(count, dgamma, dgamma, gamma_block, [](A s, A x) { return s + x; });
    MapChunk(count, dbeta, dbeta, beta_block, [](A s, A x) { return s + x; });
  }
}

}  // namespace

void Compute(const ops::LayerNormForward& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    c.pool.ParallelForEach(Rows(o.x), RowGrain(Columns(o.x)), [&](int64_t row) { NormaliseRow<A>(o, row); });
  });
}

void Compute(const ops::LayerNormBackward& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    c.pool.ParallelForEach(Rows(o.x), RowGrain(Columns(o.x)), [&](int64_t row) { NormaliseRowBackward<A>(o, row); });
  });
}

void Compute(const ops::LayerNormWeights& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    c.pool.ParallelFor(Columns(o.x), 64, [&](int64_t begin, int64_t end) {
      InChunks(begin, end, [&](int64_t first, int64_t count) {
        A dgamma[kChunk], dbeta[kChunk];
        SumWeights(o, first, count, dgamma, dbeta);
        StoreOrAdd(o.dgamma, first, count, dgamma, o.accumulate);
        StoreOrAdd(o.dbeta, first, count, dbeta, o.accumulate);
      });
    });
  });
}

}  // namespace twofold::cpu
