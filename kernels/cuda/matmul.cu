// Matrix products of layers and of attention by the library (product.h describes the requests), and the cases that the
// library does not cover: output types that it cannot store, sums over heads that must be rounded once, biases of
// another type, and empty products.
#include "kernels/cuda/algorithm_choice.h"
#include "kernels/cuda/fp8.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/numbers.h"

namespace twofold::cuda {
namespace {

const std::byte* At(const Tensor& t, int64_t element) {
  return reinterpret_cast<const std::byte*>(t.address()) + element * ElementSize(t.dtype());
}
std::byte* MutableAt(const Tensor& t, int64_t element) { return const_cast<std::byte*>(At(t, element)); }

// The matrices [rows, columns] of an output: matrix i has batch i / heads and head i % heads.
struct OutMatrices {
  int64_t first, batch, head, stride, heads, rows, columns;
};

// out = (out if `add`) + product + bias of the column; product and bias may be null. One block per row.
template <class T, class A, class B>
__global__ void StoreRows(T* out, OutMatrices where, const A* product, const B* bias, bool add) {
  const int64_t row = blockIdx.x, matrix = row / where.rows;
  out += where.first + matrix / where.heads * where.batch + matrix % where.heads * where.head +
         row % where.rows * where.stride;
  if (product != nullptr) product += row * where.columns;
  for (int64_t c = threadIdx.x; c < where.columns; c += blockDim.x) {
    A sum = product == nullptr ? A(0) : product[c];
    if (bias != nullptr) sum += As<A>(bias[c]);
    Store(out + c, add ? As<A>(out[c]) + sum : sum);
  }
}

// `operands`: the type of the bias; it determines the compute type.
void StoreOutput(const Tensor& out, const OutMatrices& where, int64_t matrices, DType operands,
                 const std::byte* product, const std::byte* bias, bool add, const Context& c) {
  const dim3 blocks(static_cast<unsigned>(matrices * where.rows));
  const int threads = where.columns >= 256 ? 256 : 64;
  ForFloat(out.dtype(), [&]<class T>() {
    ForFloat(operands, [&]<class B>() {
      using A = Wide<B>;
      Launch(StoreRows<T, A, B>, blocks, dim3(threads), 0, c.stream, reinterpret_cast<T*>(MutableAt(out, 0)), where,
             reinterpret_cast<const A*>(product), reinterpret_cast<const B*>(bias), add);
    });
  });
}

void Multiply(const ProductPlan& plan, Libraries::Operands first, const Context& c) {
  LibraryProduct product = plan.product;
  const auto moved = [](const void* from, int64_t elements, DType type) {
    return static_cast<const std::byte*>(from) + elements * ElementSize(type);
  };
  ForEachProduct(plan, [&](int64_t a, int64_t b, int64_t d, double beta) {
    Libraries::Operands on = first;
    on.a = moved(first.a, a, product.a.type);
    on.b = moved(first.b, b, product.b.type);
    on.d = const_cast<std::byte*>(moved(first.d, d, product.d.type));
    product.beta = beta;
    c.libraries.Multiply(product, on, c.stream);
  });
}

// Computes the product with its epilogue in one kernel. Returns false, having done nothing, if the epilogue must be a
// second kernel.
bool ComputeFused(const ops::MatMul& o, const Context& c) {
  const bool aligned = AlignmentOf(At(o.aux, 0)) == 16 && (o.bias.empty() || AlignmentOf(At(o.bias, 0)) == 16);
  const bool columns = o.out.dim(1) % 8 == 0;  // the library's requirement for aux
  const bool slope_of_sum = o.epilogue == ops::MatMul::kGeluSlope && !o.bias.empty();
  if (o.out.numel() == 0 || o.a.numel() == 0 || o.a.dtype() == DType::kF64 || !aligned || !columns || slope_of_sum)
    return false;
  const LibraryProduct product = PlanOf(o, /*copy=*/false, !o.bias.empty(), /*epilogue=*/true).product;
  return c.libraries.MultiplyFused(product,
                                   {.a = At(o.b, 0),
                                    .b = At(o.a, 0),
                                    .bias = o.bias.empty() ? nullptr : At(o.bias, 0),
                                    .d = MutableAt(o.out, 0),
                                    .aux = MutableAt(o.aux, 0),
                                    .workspace = c.workspace,
                                    .workspace_bytes = c.workspace_bytes},
                                   c.stream);
}

// The same in two kernels.
void ComputeWithEpilogue(const ops::MatMul& o, const Context& c) {
  using ops::ActivationForward;
  if (ComputeFused(o, c)) return;
  ops::MatMul product = o;
  product.epilogue = ops::MatMul::kNone;
  if (o.epilogue == ops::MatMul::kGelu) product.out = o.aux;
  Compute(product, c);
  if (o.epilogue == ops::MatMul::kGelu) return Compute(ActivationForward{ActivationForward::kGelu, o.aux, o.out}, c);
  Compute(ops::ActivationBackward{ActivationForward::kGelu, o.aux, o.out, o.out}, c);
}

}  // namespace

void Compute(const ops::MatMul& o, const Context& c) {
  if (o.fp8()) {
    if (!MultiplyFp8ByLibrary(o, c)) MultiplyFp8(o, c);
    return;
  }
  if (o.epilogue != ops::MatMul::kNone) return ComputeWithEpilogue(o, c);
  const int64_t m = o.out.dim(0), n = o.out.dim(1);
  const OutMatrices where = {.stride = n, .heads = 1, .rows = m, .columns = n};
  const std::byte* bias = o.bias.empty() ? nullptr : At(o.bias, 0);
  if (o.out.numel() == 0) return;
  if (o.a.numel() == 0) {  // sums of no terms
    return StoreOutput(o.out, where, 1, o.a.dtype(), nullptr, bias, o.accumulate, c);
  }
  const auto copy_bytes = static_cast<size_t>(ops::rules::CudaProductCopy(o).value());
  const auto bias_bytes = static_cast<size_t>(ops::rules::CudaBiasCopy(o).value());
  const bool copy = copy_bytes > 0;
  // The library adds a bias only of the output's type, and has no such products in F64.
  const bool theirs = bias != nullptr && !copy && o.out.dtype() == o.bias.dtype() && o.bias.dtype() != DType::kF64;
  const std::byte* aligned = bias;
  if (theirs && AlignmentOf(bias) < 16) {
    Check(cudaMemcpyAsync(c.workspace + copy_bytes, bias, static_cast<size_t>(o.bias.bytes().value()),
                          cudaMemcpyDeviceToDevice, c.stream));
    aligned = c.workspace + copy_bytes;
  }
  const size_t ours = copy_bytes + bias_bytes;
  Multiply(PlanOf(o, copy, theirs),
           {.a = At(o.b, 0),
            .b = At(o.a, 0),
            .bias = theirs ? aligned : nullptr,
            .d = copy ? c.workspace : MutableAt(o.out, 0),
            .workspace = c.workspace + ours,
            .workspace_bytes = c.workspace_bytes - ours},
           c);
  if (copy) {
    StoreOutput(o.out, where, 1, o.a.dtype(), c.workspace, bias, o.accumulate, c);
  } else if (bias != nullptr && !theirs) {
    StoreOutput(o.out, where, 1, o.a.dtype(), nullptr, bias, true, c);
  }
}

void Compute(const ops::BatchedMatMul& o, const Context& c) {
  const auto ours = static_cast<size_t>(ops::rules::CudaProductCopy(o).value());
  const bool copy = ours > 0;
  Multiply(PlanOf(o, copy),
           {.a = At(o.b.tensor, 0),
            .b = At(o.a.tensor, 0),
            .bias = nullptr,
            .d = copy ? c.workspace : MutableAt(o.out.tensor, 0),
            .workspace = c.workspace + ours,
            .workspace_bytes = c.workspace_bytes - ours},
           c);
  if (!copy) return;
  const int64_t heads = o.heads / o.out.group;
  StoreOutput(o.out.tensor,
              {.first = o.out.first,
               .batch = o.out.batch,
               .head = o.out.head,
               .stride = o.out.stride,
               .heads = heads,
               .rows = o.m,
               .columns = o.n},
              o.batches * heads, o.a.tensor.dtype(), c.workspace, nullptr, o.accumulate, c);
}

}  // namespace twofold::cuda
