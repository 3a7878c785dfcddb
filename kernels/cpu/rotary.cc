// Rotary position embedding (Su et al. 2021), in the form that rotates the two halves of a head.
#include <cmath>

#include "kernels/cpu/kernels.h"

namespace twofold::cpu {
namespace {

// Rotates one head at element `at`: (a, b) of its halves becomes (a cos - b sin, b cos + a sin). cosines, sines: `half`
// each.
template <class A>
void Turn(const Source<A>& x_of, const Sink<A>& y_of, int64_t at, int64_t half, const A* cosines, const A* sines,
          A sign) {
  InChunks(0, half, [&](int64_t first, int64_t count) {
    A buffers[4][kChunk];
    const A* a = x_of.At(at + first, count, buffers[0]);
    const A* b = x_of.At(at + half + first, count, buffers[1]);
    const A* cosine = cosines + first;
    const A* sine = sines + first;
    A* ya = y_of.At(at + first, buffers[2]);
    A* yb = y_of.At(at + half + first, buffers[3]);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const A u = a[i], v = b[i], s = sign * sine[i];
      ya[i] = u * cosine[i] - v * s;
      yb[i] = v * cosine[i] + u * s;
    }
    y_of.Put(at + first, count, ya);
    y_of.Put(at + half + first, count, yb);
  });
}

void Copy(const Tensor& from, const Tensor& to, int64_t first, int64_t n) {
  if (from.raw() != to.raw() && n > 0)
    std::memcpy(AddressOf(to, first), AddressOf(from, first), static_cast<size_t>(n * ElementSize(to.dtype())));
}

}  // namespace

void Compute(const ops::RotaryTable& o, Context& c) {
  const int64_t half = o.table.dim(1) / 2;
  VisitWide(o.table.dtype(), [&]<class A>() {
    c.pool.ParallelForEach(o.table.dim(0), RowGrain(40 * half), [&](int64_t p) {
      A* row = o.table.data<A>() + p * 2 * half;
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(p) * o.frequencies[static_cast<size_t>(i)];
        row[i] = static_cast<A>(std::cos(angle));
        row[half + i] = static_cast<A>(std::sin(angle));
      }
    });
  });
}

void Compute(const ops::Rotary& o, Context& c) {
  const ops::IndexMap positions = ops::PositionsOr(o.positions, o.x.dim(1));
  const int64_t columns = Columns(o.x), head_dim = o.table.dim(1), half = head_dim / 2;
  VisitWide(o.x.dtype(), [&]<class A>() {
    const Source<A> x_of(o.x);
    const Sink<A> y_of(o.y);
    c.pool.ParallelForEach(Rows(o.x), RowGrain(columns), [&](int64_t row) {
      const A* angles = o.table.data<A>() + positions.Of(row) * head_dim;
      for (int64_t head = 0; head < o.heads; ++head) {
        Turn(x_of, y_of, row * columns + head * head_dim, half, angles, angles + half, A(o.inverse ? -1 : 1));
      }
      Copy(o.x, o.y, row * columns + o.heads * head_dim, columns - o.heads * head_dim);
    });
  });
}

}  // namespace twofold::cpu
