// Layer normalisation (Ba et al. 2016): y = gamma * xhat + beta with xhat = (x - mean) * rstd over each row. And
// root-mean-square normalisation (Zhang and Sennrich 2019), whose operations have neither mean nor beta.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

template <class Op>
constexpr bool kCentred = requires(const Op& o) {
  o.mean;
};

template <class Op, class A>
A Centred(A x, A mean) {
  return kCentred<Op> ? x - mean : x;
}

template <class A, class Op>
A MeanOf(const Op& o, int64_t row) {
  if constexpr (kCentred<Op>)
    return o.mean.template data<A>()[row];
  else
    return 0;
}

template <class A, class Op>
void NormaliseRow(const Op& o, int64_t row) {
  const int64_t columns = Columns(o.x), at = row * columns;
  const Source<A> x_of(AddedRow<A>(o.x, o.branch, o.sum, at, columns)), gamma_of(o.gamma);
  const Sink<A> y_of(o.y);
  A buffer[kChunk], mean = 0;
  if constexpr (kCentred<Op>) {
    const A sum = SumOfChunks<A>(columns, [&](int64_t first, int64_t count) {
      const A* x = x_of.At(at + first, count, buffer);
      return SumOf<A>(count, [x](int64_t i) { return x[i]; });
    });
    mean = o.mean.template data<A>()[row] = sum / static_cast<A>(columns);
  }
  // Computes the variance from differences; the sum of squares would suffer from cancellation.
  const A squares = SumOfChunks<A>(columns, [&](int64_t first, int64_t count) {
    const A* x = x_of.At(at + first, count, buffer);
    return SumOf<A>(count, [x, mean](int64_t i) { return Centred<Op>(x[i], mean) * Centred<Op>(x[i], mean); });
  });
  const A rstd = A(1) / std::sqrt(squares / static_cast<A>(columns) + static_cast<A>(o.eps));
  o.rstd.template data<A>()[row] = rstd;
  InChunks(0, columns, [&](int64_t first, int64_t count) {
    A gamma[kChunk], beta[kChunk], result[kChunk];
    A* y = y_of.At(at + first, result);
    const A *x = x_of.At(at + first, count, buffer), *of_gamma = gamma_of.At(first, count, gamma);
    if constexpr (kCentred<Op>) {
      MapChunk(count, y, x, of_gamma, Source<A>(o.beta).At(first, count, beta),
               [mean, rstd](A v, A g, A b) { return (v - mean) * rstd * g + b; });
    } else {
      MapChunk(count, y, x, of_gamma, [rstd](A v, A g) { return v * rstd * g; });
    }
    y_of.Put(at + first, count, y);
  });
}

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * gamma; without mean(g) if x is not centred.
template <class A, class Op>
void NormaliseRowBackward(const Op& o, int64_t row) {
  const int64_t columns = Columns(o.x), at = row * columns;
  const Source<A> x_of(o.x), dy_of(o.dy), gamma_of(o.gamma);
  const Sink<A> dx_of(o.dx);
  const A mean = MeanOf<A>(o, row), rstd = o.rstd.template data<A>()[row];
  A x_buffer[kChunk], dy_buffer[kChunk], gamma_buffer[kChunk], g_sum = 0, gx_sum = 0;
  InChunks(0, columns, [&](int64_t first, int64_t count) {
    const A* x = x_of.At(at + first, count, x_buffer);
    const A* dy = dy_of.At(at + first, count, dy_buffer);
    const A* gamma = gamma_of.At(first, count, gamma_buffer);
    if constexpr (kCentred<Op>) g_sum += SumOf<A>(count, [=](int64_t i) { return dy[i] * gamma[i]; });
    gx_sum += SumOf<A>(count, [=](int64_t i) { return dy[i] * gamma[i] * (Centred<Op>(x[i], mean) * rstd); });
  });
  const A g_mean = g_sum / static_cast<A>(columns), gx_mean = gx_sum / static_cast<A>(columns);
  InChunks(0, columns, [&](int64_t first, int64_t count) {
    A result[kChunk];
    A* dx = o.past.empty() ? dx_of.At(at + first, result) : result;  // dx may alias past
    MapChunk(count, dx, x_of.At(at + first, count, x_buffer), dy_of.At(at + first, count, dy_buffer),
             gamma_of.At(first, count, gamma_buffer), [=](A x, A dy, A gamma) {
               return rstd * (Centred<Op>(dy * gamma, g_mean) - Centred<Op>(x, mean) * rstd * gx_mean);
             });
    AddPast(o.past, at + first, count, dx);
    dx_of.Put(at + first, count, dx);
  });
}

// dgamma = sum of dy * xhat and, if x is centred, dbeta = sum of dy over rows, for `count` columns from `first` on.
// Rows are taken two at a time, and blocks of rows are summed separately.
template <class A, class Op>
void SumWeights(const Op& o, int64_t first, int64_t count, A* dgamma, A* dbeta) {
  constexpr int64_t kBlock = 64;
  const int64_t columns = Columns(o.x), rows = Rows(o.x);
  const Source<A> x_of(o.x), dy_of(o.dy);
  const A* rstd = o.rstd.template data<A>();
  A buffers[4][kChunk], gamma_block[kChunk], beta_block[kChunk];
  const auto add = [](A s, A x) { return s + x; };
  std::fill_n(dgamma, count, A(0));
  if constexpr (kCentred<Op>) std::fill_n(dbeta, count, A(0));
  for (int64_t start = 0; start < rows; start += kBlock) {
    const int64_t end = std::min(rows, start + kBlock);
    std::fill_n(gamma_block, count, A(0));
    if constexpr (kCentred<Op>) std::fill_n(beta_block, count, A(0));
    for (int64_t r = start; r < end; r += 2) {
      const int64_t s = std::min(r + 1, end - 1);
      const A* x = x_of.At(r * columns + first, count, buffers[0]);
      const A* dy = dy_of.At(r * columns + first, count, buffers[1]);
      const A* x2 = x_of.At(s * columns + first, count, buffers[2]);
      const A* dy2 = dy_of.At(s * columns + first, count, buffers[3]);
      const A m = MeanOf<A>(o, r), m2 = MeanOf<A>(o, s), second = s > r ? A(1) : A(0);
      const A k = rstd[r], k2 = s > r ? rstd[s] : A(0);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        gamma_block[i] += dy[i] * (Centred<Op>(x[i], m) * k) + dy2[i] * (Centred<Op>(x2[i], m2) * k2);
        if constexpr (kCentred<Op>) beta_block[i] += dy[i] + second * dy2[i];
      }
    }
    MapChunk(count, dgamma, dgamma, gamma_block, add);
    if constexpr (kCentred<Op>) MapChunk(count, dbeta, dbeta, beta_block, add);
  }
}

template <class Op>
void Forward(const Op& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    c.pool.ParallelForEach(Rows(o.x), RowGrain(Columns(o.x)), [&](int64_t row) { NormaliseRow<A>(o, row); });
  });
}

template <class Op>
void Backward(const Op& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    c.pool.ParallelForEach(Rows(o.x), RowGrain(Columns(o.x)), [&](int64_t row) { NormaliseRowBackward<A>(o, row); });
  });
}

template <class Op>
void Weights(const Op& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    c.pool.ParallelFor(Columns(o.x), 64, [&](int64_t begin, int64_t end) {
      InChunks(begin, end, [&](int64_t first, int64_t count) {
        A dgamma[kChunk], dbeta[kChunk];
        SumWeights(o, first, count, dgamma, dbeta);
        StoreOrAdd(o.dgamma, first, count, dgamma, o.accumulate);
        if constexpr (kCentred<Op>) StoreOrAdd(o.dbeta, first, count, dbeta, o.accumulate);
      });
    });
  });
}

}  // namespace

void Compute(const ops::LayerNormForward& o, Context& c) { Forward(o, c); }
void Compute(const ops::LayerNormBackward& o, Context& c) { Backward(o, c); }
void Compute(const ops::LayerNormWeights& o, Context& c) { Weights(o, c); }
void Compute(const ops::RmsNormForward& o, Context& c) { Forward(o, c); }
void Compute(const ops::RmsNormBackward& o, Context& c) { Backward(o, c); }
void Compute(const ops::RmsNormWeights& o, Context& c) { Weights(o, c); }

}  // namespace twofold::cpu
