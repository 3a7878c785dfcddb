// Root-mean-square normalisation (Zhang and Sennrich 2019): y = gamma * xhat with xhat = x * rstd over each row.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

template <class A>
void NormaliseRow(const ops::RmsNormForward& o, int64_t row) {
  const int64_t columns = Columns(o.x), at = row * columns;
  const Source<A> x_of(AddedRow<A>(o.x, o.branch, o.sum, at, columns)), gamma_of(o.gamma);
  const Sink<A> y_of(o.y);
  A buffer[kChunk];
  const A squares = SumOfChunks<A>(columns, [&](int64_t first, int64_t count) {
    const A* x = x_of.At(at + first, count, buffer);
    return SumOf<A>(count, [x](int64_t i) { return x[i] * x[i]; });
  });
  const A rstd = A(1) / std::sqrt(squares / static_cast<A>(columns) + static_cast<A>(o.eps));
  o.rstd.data<A>()[row] = rstd;
  InChunks(0, columns, [&](int64_t first, int64_t count) {
    A gamma[kChunk], result[kChunk];
    A* y = y_of.At(at + first, result);
    MapChunk(count, y, x_of.At(at + first, count, buffer), gamma_of.At(first, count, gamma),
             [rstd](A x, A g) { return x * rstd * g; });
    y_of.Put(at + first, count, y);
  });
}

// dx = rstd * (g - xhat * mean(g * xhat)) with g = dy * gamma.
template <class A>
void NormaliseRowBackward(const ops::RmsNormBackward& o, int64_t row) {
  const int64_t columns = Columns(o.x), at = row * columns;
  const Source<A> x_of(o.x), dy_of(o.dy), gamma_of(o.gamma);
  const Sink<A> dx_of(o.dx);
  const A rstd = o.rstd.data<A>()[row];
  A x_buffer[kChunk], dy_buffer[kChunk], gamma_buffer[kChunk];
  const A gx_sum = SumOfChunks<A>(columns, [&](int64_t first, int64_t count) {
    const A* x = x_of.At(at + first, count, x_buffer);
    const A* dy = dy_of.At(at + first, count, dy_buffer);
    const A* gamma = gamma_of.At(first, count, gamma_buffer);
    return SumOf<A>(count, [=](int64_t i) { return dy[i] * gamma[i] * (x[i] * rstd); });
  });
  const A gx_mean = gx_sum / static_cast<A>(columns);
  InChunks(0, columns, [&](int64_t first, int64_t count) {
    A result[kChunk];
    A* dx = o.past.empty() ? dx_of.At(at + first, result) : result;  // dx may alias past
    MapChunk(count, dx, x_of.At(at + first, count, x_buffer), dy_of.At(at + first, count, dy_buffer),
             gamma_of.At(first, count, gamma_buffer),
             [=](A x, A dy, A gamma) { return rstd * (dy * gamma - x * rstd * gx_mean); });
    AddPast(o.past, at + first, count, dx);
    dx_of.Put(at + first, count, dx);
  });
}

// dgamma = sum of dy * xhat over rows, for `count` columns from `first` on. Rows are taken two at a time, and blocks of
// rows are summed separately.
template <class A>
void SumWeights(const ops::RmsNormWeights& o, int64_t first, int64_t count, A* dgamma) {
  constexpr int64_t kBlock = 64;
  const int64_t columns = Columns(o.x), rows = Rows(o.x);
  const Source<A> x_of(o.x), dy_of(o.dy);
  const A* rstd = o.rstd.data<A>();
  A buffers[4][kChunk], block[kChunk];
  std::fill_n(dgamma, count, A(0));
  for (int64_t start = 0; start < rows; start += kBlock) {
    const int64_t end = std::min(rows, start + kBlock);
    std::fill_n(block, count, A(0));
    for (int64_t r = start; r < end; r += 2) {
      const int64_t s = std::min(r + 1, end - 1);
      const A k = rstd[r], k2 = s > r ? rstd[s] : A(0);
      MapChunk(count, block, block, x_of.At(r * columns + first, count, buffers[0]),
               dy_of.At(r * columns + first, count, buffers[1]), x_of.At(s * columns + first, count, buffers[2]),
               dy_of.At(s * columns + first, count, buffers[3]),
               [=](A sum, A x, A dy, A x2, A dy2) { return sum + (dy * (x * k) + dy2 * (x2 * k2)); });
    }
    MapChunk(count, dgamma, dgamma, block, [](A sum, A x) { return sum + x; });
  }
}

}  // namespace

void Compute(const ops::RmsNormForward& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    c.pool.ParallelForEach(Rows(o.x), RowGrain(Columns(o.x)), [&](int64_t row) { NormaliseRow<A>(o, row); });
  });
}

void Compute(const ops::RmsNormBackward& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    c.pool.ParallelForEach(Rows(o.x), RowGrain(Columns(o.x)), [&](int64_t row) { NormaliseRowBackward<A>(o, row); });
  });
}

void Compute(const ops::RmsNormWeights& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    c.pool.ParallelFor(Columns(o.x), 64, [&](int64_t begin, int64_t end) {
      InChunks(begin, end, [&](int64_t first, int64_t count) {
        A dgamma[kChunk];
        SumWeights(o, first, count, dgamma);
        StoreOrAdd(o.dgamma, first, count, dgamma, o.accumulate);
      });
    });
  });
}

}  // namespace twofold::cpu
