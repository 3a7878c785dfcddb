// Batched products of small matrices, and the softmax between them. Matrices are processed one after another, and each
// product is divided among the threads. f32 and f64 matrices are read and written in place, strided; BF16 and F16 go
// through copies.
#include "kernels/cpu/blas.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matrix_access.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

template <class A>
void MultiplyAll(const ops::BatchedMatMul& o, Context& c) {
  const bool ta = o.transpose_a, tb = o.transpose_b;
  const MatrixAccess<A> a(o.a, ta ? o.k : o.m, ta ? o.m : o.k, c.scratch),
      b(o.b, tb ? o.n : o.k, tb ? o.k : o.n, c.scratch);
  const MatrixAccess<A> out(o.out, o.m, o.n, c.scratch);
  for (int64_t batch = 0; batch < o.batches; ++batch) {
    for (int64_t head = 0; head < o.heads; ++head) {
      const int64_t in_group = head % o.out.group;
      if (o.accumulate && in_group == 0) out.Read(batch, head);
      Multiply(Product<A>{.transpose_a = ta,
                          .transpose_b = tb,
                          .m = o.m,
                          .n = o.n,
                          .k = o.k,
                          .alpha = static_cast<A>(o.alpha),
                          .a = a.Read(batch, head),
                          .lda = a.stride(),
                          .b = b.Read(batch, head),
                          .ldb = b.stride(),
                          .beta = A(o.accumulate || in_group > 0 ? 1 : 0),
                          .c = out.At(batch, head),
                          .ldc = out.stride()},
               c.pool);
      if (in_group + 1 == o.out.group) out.Put(batch, head);
    }
  }
}

// One row, of which only the first `visible` columns count.
template <class A>
void SoftmaxRow(const Source<A>& x_of, const Sink<A>& y_of, const Tensor& y_tensor, int64_t at, int64_t visible,
                int64_t columns) {
  A buffer[kChunk], result[kChunk], top = -std::numeric_limits<A>::infinity();
  InChunks(0, visible, [&](int64_t first, int64_t count) {
    const A of_chunk = MaxOf(count, x_of.At(at + first, count, buffer));
    top = of_chunk > top ? of_chunk : top;
  });
  const A sum = SumOfChunks<A>(visible, [&](int64_t first, int64_t count) {
    const A* x = x_of.At(at + first, count, buffer);
    return SumOf<A>(count, [=](int64_t i) { return Exp(x[i] - top); });
  });
  InChunks(0, visible, [&](int64_t first, int64_t count) {
    A* y = y_of.At(at + first, result);
    MapChunk(count, y, x_of.At(at + first, count, buffer),
             [top, factor = A(1) / sum](A x) { return Exp(x - top) * factor; });
    y_of.Put(at + first, count, y);
  });
  SetZero(y_tensor, at + visible, columns - visible);
}

}  // namespace

void Compute(const ops::BatchedMatMul& o, Context& c) {
  VisitWide(o.a.tensor.dtype(), [&]<class A>() { MultiplyAll<A>(o, c); });
}

void Compute(const ops::SoftmaxForward& o, Context& c) {
  const int64_t columns = Columns(o.x), t = o.x.dim(-2);
  VisitWide(o.x.dtype(), [&]<class A>() {
    const Source<A> x_of(o.x);
    const Sink<A> y_of(o.y);
    c.pool.ParallelForEach(Rows(o.x), RowGrain(columns), [&](int64_t row) {
      SoftmaxRow(x_of, y_of, o.y, row * columns, o.causal ? row % t + 1 : columns, columns);
    });
  });
}

void Compute(const ops::SoftmaxBackward& o, Context& c) {
  const int64_t columns = Columns(o.y);
  VisitWide(o.y.dtype(), [&]<class A>() {
    const Source<A> y_of(o.y), dy_of(o.dy);
    const Sink<A> dx_of(o.dx);
    c.pool.ParallelForEach(Rows(o.y), RowGrain(columns), [&](int64_t row) {
      const int64_t at = row * columns;
      A y_buffer[kChunk], dy_buffer[kChunk], result[kChunk];
      const A delta = SumOfChunks<A>(columns, [&](int64_t first, int64_t count) {
        const A* y = y_of.At(at + first, count, y_buffer);
        const A* dy = dy_of.At(at + first, count, dy_buffer);
        return SumOf<A>(count, [=](int64_t i) { return y[i] * dy[i]; });
      });
      InChunks(0, columns, [&](int64_t first, int64_t count) {
        A* dx = dx_of.At(at + first, result);
        MapChunk(count, dx, y_of.At(at + first, count, y_buffer), dy_of.At(at + first, count, dy_buffer),
                 [delta](A y, A dy) { return y * (dy - delta); });
        dx_of.Put(at + first, count, dx);
      });
    });
  });
}

}  // namespace twofold::cpu
