#include "kernels/cuda/fp8_choice.h"

#include "core/base/strings.h"

namespace twofold::cuda {
namespace {

bool Aligned(const Tensor& t) { return t.empty() || t.address() % 16 == 0; }

// One scale may lie anywhere.
bool ScalesAligned(const ops::Fp8Scaling& s) { return s.blocks == ops::Fp8Blocks::kTensor || Aligned(s.scales); }

}  // namespace

std::string WhyNoLibraryFp8(const ops::MatMul& o, Capability gpu, size_t cublas_version) {
  const int capability = gpu.number();
  if (capability < 89) return "FP8 begins with compute capability 8.9";
  if (!ops::rules::LibraryHasFp8(o)) {
    return "cuBLASLt needs sizes that are multiples of 16 (with blocks of scales, of 128 along the sum), a bias of the "
           "result's type, and E4M3 in one operand, with blocks in both, which lie along the sum";
  }
  if (!ops::rules::LibraryHasFp8(o, capability)) return "cuBLASLt has blocks of scales on compute capability 9.0 alone";
  if (o.a_scaling.blocks != ops::Fp8Blocks::kTensor && cublas_version < kCublasWithFp8Blocks)
    return "cuBLASLt has blocks of scales from version 12.9 on";
  if (!Aligned(o.a) || !Aligned(o.b) || !Aligned(o.out) || !Aligned(o.aux) || !ScalesAligned(o.a_scaling) ||
      !ScalesAligned(o.b_scaling))
    return "cuBLASLt needs tensors that are aligned to 16 bytes";
  return "";
}

std::string Fp8Choice::WhyOwn(const ops::MatMul& o) const {
  return own_ ? "cuda.fp8: OWN" : WhyNoLibraryFp8(o, gpu_, version_);
}

std::string Fp8Choice::WhyRefused(const AlgorithmKey& product) const {
  const auto found = refused_.find(product);
  return found == refused_.end() ? "" : found->second;
}

void Fp8Choice::Tell(const ops::MatMul& o, const std::string& why_own) {
  if (!note_) return;
  const std::string_view kernel = ops::Key(o).name;
  if (!told_.emplace(kernel, why_own).second) return;
  note_(StrCat(std::string(kernel), ": ",
               why_own.empty() ? "cuBLASLt's kernels" : StrCat("own kernels (", why_own, ")")));
}

}  // namespace twofold::cuda
