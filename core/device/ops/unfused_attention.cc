#include "core/device/ops/unfused_attention.h"

#include "core/device/ops/product.h"
#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

// True if every matrix [rows, columns] is inside its tensor.
bool Fits(const Matrices& m, int64_t rows, int64_t columns, const BatchedMatMul& o) {
  const int64_t last =
      m.first + (o.batches - 1) * m.batch + (o.heads - 1) / m.group * m.head + (rows - 1) * m.stride + columns;
  return rows >= 1 && columns >= 1 && m.first >= 0 && m.batch >= 0 && m.head >= 0 && m.stride >= columns &&
         m.group >= 1 && o.heads % m.group == 0 && last <= m.tensor.numel();
}

// The bytes of all matrices of one operand. Shared matrices count once.
Bytes BytesOf(const Matrices& m, int64_t rows, int64_t columns, const BatchedMatMul& o) {
  return Bytes(o.batches * (o.heads / m.group) * rows * columns * ElementSize(m.tensor.dtype()));
}

}  // namespace

KernelKey Key(const BatchedMatMul& o) {
  constexpr std::string_view kNames[] = {"batched_matmul_nn", "batched_matmul_nt", "batched_matmul_tn",
                                         "batched_matmul_tt"};
  return {kNames[o.transpose_a * 2 + o.transpose_b], o.a.tensor.dtype(), {o.batches * o.heads * o.m, o.n, o.k}};
}
Cost CostOf(const BatchedMatMul& o) {
  const double products =
      static_cast<double>(o.batches * o.heads) * static_cast<double>(o.m) * static_cast<double>(o.n);
  return {
      Flops(2 * products * static_cast<double>(o.k)),
      BytesOf(o.a, o.m, o.k, o) + BytesOf(o.b, o.k, o.n, o) + (o.accumulate ? BytesOf(o.out, o.m, o.n, o) : Bytes(0)),
      BytesOf(o.out, o.m, o.n, o)};
}
void CheckShapes(const BatchedMatMul& o) {
  const bool ta = o.transpose_a, tb = o.transpose_b;
  Expect(o.batches >= 1 && o.heads >= 1 && Fits(o.a, ta ? o.k : o.m, ta ? o.m : o.k, o) &&
             Fits(o.b, tb ? o.n : o.k, tb ? o.k : o.n, o) && Fits(o.out, o.m, o.n, o) &&
             o.a.tensor.dtype() == o.b.tensor.dtype() && IsFloat(o.out.tensor.dtype()),
         Key(o).name, {&o.a.tensor, &o.b.tensor, &o.out.tensor});
}
// If a type differs from the arithmetic type, one matrix of each operand is copied.
Bytes CpuWorkspace(const BatchedMatMul& o) {
  const DType wide = AccumulationType(o.a.tensor.dtype());
  int64_t elements = 0;
  if (o.a.tensor.dtype() != wide) elements += RoundUp(o.m * o.k, 16) + RoundUp(o.k * o.n, 16);
  if (o.out.tensor.dtype() != wide) elements += RoundUp(o.m * o.n, 16);
  return Bytes(elements * ElementSize(wide));
}

Bytes CudaProductCopy(const BatchedMatMul& o) {
  const DType in = o.a.tensor.dtype(), out = o.out.tensor.dtype(), wide = AccumulationType(in);
  if (LibraryStores(in, out) && (o.out.group == 1 || out == wide)) return Bytes(0);
  return Bytes(RoundUp(o.batches * (o.heads / o.out.group) * o.m * o.n * ElementSize(wide), kCudaAlignment));
}
Bytes CudaWorkspace(const BatchedMatMul& o) { return CudaProductCopy(o) + kLibraryWorkspace; }

KernelKey Key(const SoftmaxForward& o) { return ByRows("softmax_forward", o.x); }
Cost CostOf(const SoftmaxForward& o) { return Streaming(o.causal ? 6 : 12, o.x.numel(), o.x.bytes(), o.y.bytes()); }
void CheckShapes(const SoftmaxForward& o) {
  Expect(o.x.shape().rank() >= 2 && Like(o.x, o.y) && (!o.causal || o.x.dim(-1) == o.x.dim(-2)), "softmax_forward",
         {&o.x, &o.y});
}

KernelKey Key(const SoftmaxBackward& o) { return ByRows("softmax_backward", o.y); }
Cost CostOf(const SoftmaxBackward& o) { return Streaming(4, o.y.numel(), o.y.bytes() + o.dy.bytes(), o.dx.bytes()); }
void CheckShapes(const SoftmaxBackward& o) {
  Expect(Like(o.y, o.dy) && Like(o.y, o.dx), "softmax_backward", {&o.y, &o.dy, &o.dx});
}

}  // namespace twofold::ops::rules
