#include "kernels/cuda/fp8_choice.h"

#include "core/base/strings.h"

namespace twofold::cuda {
namespace {

bool Aligned(const Tensor& t) { return t.empty() || t.address() % 16 == 0; }

}  // namespace

std::string WhyNoLibraryFp8(const ops::MatMul& o, Capability gpu, size_t cublas_version) {
  const int capability = 10 * gpu.major + gpu.minor;
  const bool any_layout = gpu.major == 10 || gpu.major == 11, blocks = o.a_scaling.blocks != ops::Fp8Blocks::kTensor;
  if (capability < 89) return "FP8 begins with compute capability 8.9";
  if (!(o.transpose_b && !o.transpose_a)) {
    if (blocks) return "cuBLASLt has blocks of scales only where both operands lie along the sum";
    if (!any_layout) return "cuBLASLt has other layouts than a b^T on compute capability 10.x and 11.x alone";
  }
  if (!ops::rules::LibraryHasFp8(o)) {
    return "cuBLASLt needs sizes that are multiples of 16 (with blocks of scales, of 128 along the sum), a bias of the "
           "result's type, and E4M3 in one operand, with blocks in both";
  }
  if (blocks && capability != 90) return "cuBLASLt has blocks of scales on compute capability 9.0 alone";
  if (blocks && cublas_version < kCublasWithFp8Blocks) return "cuBLASLt has blocks of scales from version 12.9 on";
  if (!Aligned(o.a) || !Aligned(o.b) || !Aligned(o.out) || !Aligned(o.aux))
    return "cuBLASLt needs tensors that are aligned to 16 bytes";
  return "";
}

std::string Fp8Choice::WhyOwn(const ops::MatMul& o) const {
  return own_ ? "cuda.fp8: OWN" : WhyNoLibraryFp8(o, gpu_, version_);
}

void Fp8Choice::Tell(const ops::MatMul& o, const std::string& why_own) {
  if (!note_) return;
  const std::string_view kernel = ops::Key(o).name;
  if (!told_.emplace(kernel, why_own).second) return;
  note_(StrCat(std::string(kernel), ": ",
               why_own.empty() ? "cuBLASLt's kernels" : StrCat("own kernels (", why_own, ")")));
}

}  // namespace twofold::cuda
