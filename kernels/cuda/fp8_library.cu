// Products of FP8 operands by cuBLASLt: operands and scales in its layouts, biases that it does not add, and epilogues.
#include "kernels/cuda/algorithm_choice.h"
#include "kernels/cuda/fp8.h"
#include "kernels/cuda/functions.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/libraries.h"

namespace twofold::cuda {
namespace {

constexpr int kArrangeThreads = 256;

// Scales [rows, columns] of one operand, and their copy: transposed or not, with rows of out_columns, of which
// those beyond the scales are 1.
struct ScalesCopy {
  const float* from = nullptr;
  float* to = nullptr;
  int64_t rows = 0, columns = 0, out_columns = 0;
  bool transposed = false;
  int64_t size() const { return (transposed ? columns : rows) * out_columns; }
  __device__ void Copy(int64_t i) const {
    const int64_t row = i / out_columns, column = i % out_columns;
    const bool inside = column < (transposed ? rows : columns);
    to[i] = inside ? from[transposed ? column * columns + row : row * columns + column] : 1.0f;
  }
};

__global__ void __launch_bounds__(kArrangeThreads)
    ArrangeScales(ScalesCopy a, ScalesCopy b, int64_t of_a, int64_t all) {
  const int64_t step = int64_t{gridDim.x} * kArrangeThreads;
  for (int64_t i = int64_t{blockIdx.x} * kArrangeThreads + threadIdx.x; i < all; i += step)
    i < of_a ? a.Copy(i) : b.Copy(i - of_a);
}

// An operand as the library gets it, and the copies that make it so; those that are not needed are empty.
struct LibraryOperand {
  const std::byte* codes;
  const float* scales;
  CodesCopy codes_copy = {};
  ScalesCopy scales_copy = {};
};

// The parts of an operation's workspace, in the order of ops::rules::Fp8Copies. The library has the rest.
class Workspace {
 public:
  explicit Workspace(const Context& c) : at_(c.workspace), end_(c.workspace + c.workspace_bytes) {}
  std::byte* Take(Bytes bytes) { return std::exchange(at_, at_ + bytes.value()); }
  std::byte* rest() const { return at_; }
  size_t rest_bytes() const { return static_cast<size_t>(end_ - at_); }

 private:
  std::byte *at_, *const end_;
};

// `across`: the operand lies across the sum, and is to lie along it.
CodesCopy CopyOfCodes(const Tensor& codes, bool across, std::byte* to) {
  if (!across) return {};
  return {
      .from = At<uint8_t>(codes), .to = reinterpret_cast<uint8_t*>(to), .rows = codes.dim(0), .columns = codes.dim(1)};
}
ScalesCopy CopyOfScales(const ops::Fp8Scaling& s, bool across, std::byte* to) {
  const bool square = s.blocks == ops::Fp8Blocks::kSquare;
  if (s.blocks == ops::Fp8Blocks::kTensor || (across && !square)) return {};
  constexpr int64_t kAlign = ops::rules::kFp8ScalesAlign;
  const int64_t rows = s.scales.dim(0), columns = s.scales.dim(1), blocks = across ? rows : columns;
  return {.from = At<float>(s.scales),
          .to = reinterpret_cast<float*>(to),
          .rows = rows,
          .columns = columns,
          .out_columns = square ? CeilDiv(blocks, kAlign) * kAlign : rows,
          .transposed = !square || across};
}
LibraryOperand OperandOf(const Tensor& codes, const CodesCopy& codes_copy, const ops::Fp8Scaling& s,
                         const ScalesCopy& scales_copy) {
  return {.codes = codes_copy.to != nullptr ? reinterpret_cast<const std::byte*>(codes_copy.to) : At<std::byte>(codes),
          .scales = scales_copy.to != nullptr ? scales_copy.to : At<float>(s.scales),
          .codes_copy = codes_copy,
          .scales_copy = scales_copy};
}

void MakeCopies(const LibraryOperand& a, const LibraryOperand& b, const Context& c) {
  TransposeCodes(a.codes_copy, b.codes_copy, c);
  const int64_t of_a = a.scales_copy.size(), all = of_a + b.scales_copy.size();
  Launch(ArrangeScales, GridFor(all, kArrangeThreads, c.multiprocessors), kArrangeThreads, 0, c.stream, a.scales_copy,
         b.scales_copy, of_a, all);
}

// The product and its bias, without an epilogue. Returns "", or why the library cannot do it; nothing is launched for
// what it has refused before.
std::string Multiply(const ops::MatMul& o, const Context& c) {
  Fp8Choice& choice = c.libraries.fp8();
  const bool turns = choice.along_sum(), across_a = turns && o.transpose_a, across_b = turns && !o.transpose_b;
  const ops::rules::Fp8Copies of_a = ops::rules::CudaFp8CopiesOfA(o), of_b = ops::rules::CudaFp8CopiesOfB(o);
  Workspace workspace(c);
  std::byte* const bias_copy = workspace.Take(ops::rules::CudaBiasCopy(o));
  const CodesCopy a_codes = CopyOfCodes(o.a, across_a, workspace.Take(of_a.codes)),
                  b_codes = CopyOfCodes(o.b, across_b, workspace.Take(of_b.codes));
  const ScalesCopy a_scales = CopyOfScales(o.a_scaling, across_a, workspace.Take(of_a.scales)),
                   b_scales = CopyOfScales(o.b_scaling, across_b, workspace.Take(of_b.scales));
  const LibraryOperand a = OperandOf(o.a, a_codes, o.a_scaling, a_scales),
                       b = OperandOf(o.b, b_codes, o.b_scaling, b_scales);
  const bool theirs = !o.bias.empty() && o.bias.dtype() != DType::kF32;  // it adds none in F32 to FP8
  const bool copies_bias = theirs && AlignmentOf(At<std::byte>(o.bias)) < 16;
  LibraryProduct product = PlanOf(o, /*copy=*/false, theirs).product;
  if (turns) product = AlongSum(product);
  const Libraries::Operands on{.a = b.codes,  // the library's a is our b
                               .b = a.codes,
                               .bias = copies_bias ? bias_copy
                                       : theirs    ? At<std::byte>(o.bias)
                                                   : nullptr,
                               .d = At<std::byte>(o.out),
                               .workspace = workspace.rest(),
                               .workspace_bytes = workspace.rest_bytes(),
                               .a_scales = b.scales,
                               .b_scales = a.scales};
  const AlgorithmKey key = KeyOf(product, on.a, on.b, on.d, on.workspace_bytes);
  std::string why = choice.WhyRefused(key);
  if (!why.empty()) return why;
  why = c.libraries.WhyNoFp8(product, on, c.stream);
  if (why.empty()) {
    if (copies_bias) {
      Check(cudaMemcpyAsync(bias_copy, At<std::byte>(o.bias), static_cast<size_t>(o.bias.bytes().value()),
                            cudaMemcpyDeviceToDevice, c.stream));
    }
    MakeCopies(a, b, c);
    why = c.libraries.MultiplyFp8(product, on, c.stream);
  }
  if (!why.empty()) choice.Refused(key, why);
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
