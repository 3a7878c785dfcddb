// Products by OpenBLAS; what is not already in its types is widened into scratch memory.
#include "kernels/cpu/blas.h"
#include "kernels/cpu/kernels.h"

namespace twofold::cpu {
namespace {

template <class A>
const A* Widened(const Tensor& t, Context& c) {
  if (t.dtype() == DTypeOf<A>::value) return t.data<A>();
  A* copy = c.scratch.Take<A>(t.numel());
  ForChunks(c.pool, t.numel(), [&](int64_t first, int64_t count) {
    Convert(AddressOf(t, first), t.dtype(), copy + first, DTypeOf<A>::value, count);
  });
  return copy;
}

// product[r, :] (+)= bias
template <class A>
void SpreadBias(const Tensor& bias, A* product, int64_t rows, bool add, ThreadPool& pool) {
  const int64_t n = bias.numel();
  const Source<A> source(bias);
  pool.ParallelFor(rows, RowGrain(n), [&](int64_t begin, int64_t end) {
    InChunks(0, n, [&](int64_t first, int64_t count) {
      A buffer[kChunk];
      const A* b = source.At(first, count, buffer);
      for (int64_t r = begin; r < end; ++r) {
        A* row = product + r * n + first;
        if (add)
          MapChunk(
              count, row, [](A x, A y) { return x + y; }, row, b);
        else
          MapChunk(
              count, row, [](A y) { return y; }, b);
      }
    });
  });
}

template <class A>
void MultiplyInto(const ops::MatMul& o, Context& c) {
  const int64_t m = o.out.dim(0), n = o.out.dim(1), k = o.transpose_a ? o.a.dim(0) : o.a.dim(1);
  const A* a = Widened<A>(o.a, c);
  const A* b = Widened<A>(o.b, c);
  const bool direct = o.out.dtype() == DTypeOf<A>::value;
  const bool add = direct && o.accumulate;  // in the product itself; otherwise when it is stored
  A* product = direct ? o.out.data<A>() : c.scratch.Take<A>(m * n);
  if (!o.bias.empty()) SpreadBias(o.bias, product, m, add, c.pool);
  Multiply(Product<A>{.transpose_a = o.transpose_a,
                      .transpose_b = o.transpose_b,
                      .m = m,
                      .n = n,
                      .k = k,
                      .a = a,
                      .lda = o.a.dim(1),
                      .b = b,
                      .ldb = o.b.dim(1),
                      .beta = A(add || !o.bias.empty() ? 1 : 0),
                      .c = product,
                      .ldc = n},
           c.pool);
  if (direct) return;
  ForChunks(c.pool, m * n, [&](int64_t first, int64_t count) {
    StoreOrAdd(o.out, first, count, product + first, o.accumulate);
  });
}

}  // namespace

void Compute(const ops::MatMul& o, Context& c) {
  VisitWide(o.a.dtype(), [&]<class A>() { MultiplyInto<A>(o, c); });
}

}  // namespace twofold::cpu
