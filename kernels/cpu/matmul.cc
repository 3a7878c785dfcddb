// Products of layers; operands that are not f32 or f64 are converted into scratch memory. FP8 operands are exact in
// f32.
#include "kernels/cpu/fp8.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/panel_product.h"

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

// The same for an operand that may be FP8.
template <class A>
const A* Operand(const Tensor& t, const ops::Fp8Scaling& scaling, Context& c) {
  if constexpr (std::is_same_v<A, float>) {
    if (!scaling.empty()) {
      A* copy = c.scratch.Take<A>(t.numel());
      DecodeFp8(t, scaling, copy, c.pool);
      return copy;
    }
  }
  return Widened<A>(t, c);
}

template <class A>
void MultiplyInto(const ops::MatMul& o, Context& c) {
  const int64_t m = o.out.dim(0), n = o.out.dim(1), k = o.transpose_a ? o.a.dim(0) : o.a.dim(1);
  const A* a = Operand<A>(o.a, o.a_scaling, c);
  const A* b = Operand<A>(o.b, o.b_scaling, c);
  const A* bias = o.bias.empty() ? nullptr : Widened<A>(o.bias, c);
  const bool direct = o.out.dtype() == DTypeOf<A>::value;
  A* product = direct ? o.out.data<A>() : c.scratch.Take<A>(m * n);
  const Product<A> whole{.transpose_a = o.transpose_a,
                         .transpose_b = o.transpose_b,
                         .m = m,
                         .n = n,
                         .k = k,
                         .a = a,
                         .lda = o.a.dim(1),
                         .b = b,
                         .ldb = o.b.dim(1),
                         .beta = A(direct && o.accumulate ? 1 : 0),  // otherwise storing adds it
                         .c = product,
                         .ldc = n};
  const int64_t each = PanelScratch(m, n, k);
  A* scratch = c.scratch.Take<A>(each * c.pool.threads());
  ForTiles(c.pool, m, n, k, [&](int64_t thread, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    MultiplyPanels(whole.Part(row, rows, column, columns), bias == nullptr ? nullptr : bias + column,
                   scratch + thread * each);
  });
  if (direct) return;
  ForChunks(c.pool, m * n,
            [&](int64_t first, int64_t count) { StoreOrAdd(o.out, first, count, product + first, o.accumulate); });
}

}  // namespace

void Compute(const ops::MatMul& o, Context& c) {
  using ops::MatMul, ops::ActivationForward;
  MatMul product = o;
  if (o.epilogue == MatMul::kGelu) product.out = o.aux;
  VisitWide(o.fp8() ? DType::kF32 : o.a.dtype(), [&]<class A>() { MultiplyInto<A>(product, c); });
  if (o.epilogue == MatMul::kGelu) Compute(ActivationForward{ActivationForward::kGelu, o.aux, o.out}, c);
  if (o.epilogue == MatMul::kGeluSlope)
    Compute(ops::ActivationBackward{ActivationForward::kGelu, o.aux, o.out, o.out}, c);
}

}  // namespace twofold::cpu
