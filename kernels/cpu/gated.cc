// SwiGLU (Shazeer 2020).
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

// 1 / (1 + e^-x)
template <class A>
A Sigmoid(A x) {
  return A(1) / (A(1) + Exp(-x));
}

// Calls f(row, first, count) for pieces of the rows of a tensor with `columns` columns, divided among the threads.
template <class F>
void ForRowPieces(ThreadPool& pool, int64_t rows, int64_t columns, F f) {
  pool.ParallelForEach(rows, RowGrain(columns), [&](int64_t row) {
    InChunks(0, columns, [&](int64_t first, int64_t count) { f(row, first, count); });
  });
}

}  // namespace

void Compute(const ops::SwiGluForward& o, Context& c) {
  const int64_t columns = Columns(o.y);
  VisitWide(o.x.dtype(), [&]<class A>() {
    const Source<A> x_of(o.x);
    const Sink<A> y_of(o.y);
    ForRowPieces(c.pool, Rows(o.y), columns, [&](int64_t row, int64_t first, int64_t count) {
      A gate[kChunk], up[kChunk], result[kChunk];
      A* y = y_of.At(row * columns + first, result);
      MapChunk(count, y, x_of.At(2 * row * columns + first, count, gate),
               x_of.At((2 * row + 1) * columns + first, count, up), [](A g, A u) { return g * Sigmoid(g) * u; });
      y_of.Put(row * columns + first, count, y);
    });
  });
}

// d silu(g) / dg = s + g s (1 - s) with s = sigmoid(g).
void Compute(const ops::SwiGluBackward& o, Context& c) {
  const int64_t columns = Columns(o.dy);
  VisitWide(o.x.dtype(), [&]<class A>() {
    const Source<A> x_of(o.x), dy_of(o.dy);
    const Sink<A> dx_of(o.dx);
    ForRowPieces(c.pool, Rows(o.dy), columns, [&](int64_t row, int64_t first, int64_t count) {
      A buffers[5][kChunk];
      const int64_t gate_at = 2 * row * columns + first, up_at = gate_at + columns;
      const A* gate = x_of.At(gate_at, count, buffers[0]);
      const A* up = x_of.At(up_at, count, buffers[1]);
      const A* dy = dy_of.At(row * columns + first, count, buffers[2]);
      A* dgate = dx_of.At(gate_at, buffers[3]);
      A* dup = dx_of.At(up_at, buffers[4]);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        const A g = gate[i], s = Sigmoid(g), u = up[i], d = dy[i];
        dup[i] = d * (g * s);
        dgate[i] = d * u * (s + g * s * (A(1) - s));
      }
      dx_of.Put(gate_at, count, dgate);
      dx_of.Put(up_at, count, dup);
    });
  });
}

}  // namespace twofold::cpu
