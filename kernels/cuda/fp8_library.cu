// Products of FP8 operands by cuBLASLt: scales in its layouts, biases that it does not add, and epilogues.
#include "kernels/cuda/algorithm_choice.h"
#include "kernels/cuda/fp8.h"
#include "kernels/cuda/functions.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/libraries.h"

namespace twofold::cuda {
namespace {

constexpr int kArrangeThreads = 256;

// Scales [rows, columns] of one operand, and their copy [out_rows, out_columns]: transposed, or with longer rows.
struct ScalesCopy {
  const float* from;
  float* to;
  int64_t rows, columns, out_columns;
  bool transposed;
  int64_t size() const { return transposed ? rows * columns : rows * out_columns; }
  __device__ void Copy(int64_t i) const {
    const int64_t row = transposed ? i % rows : i / out_columns, column = transposed ? i / rows : i % out_columns;
    to[i] = column < columns ? from[row * columns + column] : 1.0f;
  }
};

__global__ void __launch_bounds__(kArrangeThreads)
    ArrangeScales(ScalesCopy a, ScalesCopy b, int64_t of_a, int64_t all) {
  const int64_t step = int64_t{gridDim.x} * kArrangeThreads;
  for (int64_t i = int64_t{blockIdx.x} * kArrangeThreads + threadIdx.x; i < all; i += step)
    i < of_a ? a.Copy(i) : b.Copy(i - of_a);
}

// Copies the scales of blocks to `to`, which has room for them, and points `on` at the copies.
void Arrange(const ops::MatMul& o, std::byte* to, const ops::rules::Fp8ScaleCopies& bytes, Libraries::Operands& on,
             const Context& c) {
  const auto copy = [](const Tensor& scales, std::byte* at, bool transposed) {
    return ScalesCopy{.from = At<float>(scales),
                      .to = reinterpret_cast<float*>(at),
                      .rows = scales.dim(0),
                      .columns = scales.dim(1),
                      .out_columns = CeilDiv(scales.dim(1), ops::rules::kFp8ScalesAlign) * ops::rules::kFp8ScalesAlign,
                      .transposed = transposed};
  };
  const ScalesCopy a = copy(o.a_scaling.scales, to, true), b = copy(o.b_scaling.scales, to + bytes.a.value(), false);
  const int64_t all = a.size() + b.size();
  Launch(ArrangeScales, GridFor(all, kArrangeThreads, c.multiprocessors), kArrangeThreads, 0, c.stream, a, b, a.size(),
         all);
  on.b_scales = a.to, on.a_scales = b.to;  // the library's a is our b
}

// The product and its bias, without an epilogue. Returns "", or why the library cannot do it.
std::string Multiply(const ops::MatMul& o, const Context& c) {
  const ops::rules::Fp8ScaleCopies scales = ops::rules::CudaFp8ScaleCopies(o);
  const auto bias_bytes = static_cast<size_t>(ops::rules::CudaBiasCopy(o).value());
  const size_t ours = bias_bytes + static_cast<size_t>((scales.a + scales.b).value());
  const bool theirs = !o.bias.empty() && o.bias.dtype() != DType::kF32;  // it adds none in F32 to FP8
  const auto* bias = theirs ? At<std::byte>(o.bias) : nullptr;
  if (theirs && AlignmentOf(bias) < 16) {
    Check(cudaMemcpyAsync(c.workspace, bias, static_cast<size_t>(o.bias.bytes().value()), cudaMemcpyDeviceToDevice,
                          c.stream));
    bias = c.workspace;
  }
  Libraries::Operands on{.a = At<std::byte>(o.b),
                         .b = At<std::byte>(o.a),
                         .bias = bias,
                         .d = At<std::byte>(o.out),
                         .workspace = c.workspace + ours,
                         .workspace_bytes = c.workspace_bytes - ours,
                         .a_scales = At<float>(o.b_scaling.scales),
                         .b_scales = At<float>(o.a_scaling.scales)};
  if (o.a_scaling.blocks != ops::Fp8Blocks::kTensor) Arrange(o, c.workspace + bias_bytes, scales, on, c);
  const std::string why = c.libraries.MultiplyFp8(PlanOf(o, /*copy=*/false, theirs).product, on, c.stream);
  if (why.empty() && !o.bias.empty() && !theirs) Compute(ops::AddBias{o.out, o.bias, o.out}, c);
  return why;
}

}  // namespace

bool MultiplyFp8ByLibrary(const ops::MatMul& o, const Context& c) {
  Fp8Choice& choice = c.libraries.fp8();
  std::string why = choice.WhyOwn(o);
  if (why.empty()) {
    ops::MatMul product = o;
    product.epilogue = ops::MatMul::kNone, product.aux = Tensor();
    if (o.epilogue == ops::MatMul::kGelu) product.out = o.aux;
    why = Multiply(product, c);
  }
  choice.Tell(o, why);
  if (!why.empty()) return false;
  constexpr auto kGelu = ops::ActivationForward::kGelu;
  if (o.epilogue == ops::MatMul::kGelu) Compute(ops::ActivationForward{kGelu, o.aux, o.out}, c);
  if (o.epilogue == ops::MatMul::kGeluSlope) Compute(ops::ActivationBackward{kGelu, o.aux, o.out, o.out}, c);
  return true;
}

}  // namespace twofold::cuda
