#include "kernels/cuda/attentions.h"

#include <algorithm>

#include "core/base/strings.h"
#include "kernels/cuda/error.h"

namespace twofold::cuda {
namespace {

// The operands for an operation's tensors, under the names that GraphOf uses.
void SetQkv(const LibraryAttention& a, const Tensor& qkv, std::array<GraphOperand, 3> operands, GraphAddresses& to) {
  auto* const first = reinterpret_cast<std::byte*>(qkv.address());
  for (const GraphOperand operand : operands) {
    to[static_cast<size_t>(operand)] = first + FirstElement(a, operand) * ElementSize(a.type);
  }
}
void Set(const Tensor& t, GraphOperand operand, GraphAddresses& to) {
  to[static_cast<size_t>(operand)] = reinterpret_cast<void*>(t.address());
}

bool OursAlone(AttentionKernels kernels) {
  return kernels == AttentionKernels::kOwn || kernels == AttentionKernels::kHopper;
}

bool Aligned(const GraphAddresses& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](void* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; });
}

}  // namespace

bool Attentions::Run(const ops::AttentionForward& o, std::byte* workspace, size_t workspace_bytes,
                     cudaStream_t stream) {
  if (OursAlone(kernels_)) return false;
  const LibraryAttention a = Described(o);
  GraphAddresses tensors = {};
  SetQkv(a, o.qkv, {GraphOperand::kQ, GraphOperand::kK, GraphOperand::kV}, tensors);
  Set(o.out, GraphOperand::kOut, tensors);
  Set(o.lse, GraphOperand::kLse, tensors);
  return Run(a, tensors, workspace, workspace_bytes, stream);
}

bool Attentions::Run(const ops::AttentionBackward& o, std::byte* workspace, size_t workspace_bytes,
                     cudaStream_t stream) {
  if (OursAlone(kernels_)) return false;
  const LibraryAttention a = Described(o);
  GraphAddresses tensors = {};
  SetQkv(a, o.qkv, {GraphOperand::kQ, GraphOperand::kK, GraphOperand::kV}, tensors);
  SetQkv(a, o.dqkv, {GraphOperand::kDQ, GraphOperand::kDK, GraphOperand::kDV}, tensors);
  Set(o.out, GraphOperand::kOut, tensors);
  Set(o.lse, GraphOperand::kLse, tensors);
  Set(o.dout, GraphOperand::kDOut, tensors);
  return Run(a, tensors, workspace, workspace_bytes, stream);
}

bool Attentions::Run(const LibraryAttention& a, const GraphAddresses& tensors, std::byte* workspace,
                     size_t workspace_bytes, cudaStream_t stream) {
  if (!Aligned(tensors)) {
    LeaveToOwn(a, "cuDNN's attention needs tensors that are aligned to 16 bytes");
    return false;
  }
  const std::pair key(a, workspace_bytes);
  auto found = decided_.find(key);
  if (found == decided_.end()) found = decided_.emplace(key, Decide(a, workspace_bytes)).first;
  if (!found->second) return false;
  const std::string why =
      cuda::WhyNot([&] { plans_.Run(*found->second, tensors, workspace, workspace_bytes, stream); }, stream);
  if (why.empty()) return true;
  LeaveToOwn(a, why);  // our kernels overwrite anything it may have written
  found->second.reset();
  return false;
}

std::optional<LibraryAttention> Attentions::Decide(const LibraryAttention& a, size_t workspace_bytes) {
  std::string why;
  for (const LibraryAttention& asked : AskedFor(a, kernels_, any_bits_)) {
    const std::string why_not = plans_.WhyNot(asked, workspace_bytes);
    if (why_not.empty()) {
      const char* const how =
          asked.repeatable ? ""
                           : ", which sums the queries' gradients in no fixed order: last bits may differ between runs";
      Tell(a, StrCat(CudnnVersion(&why), how));
      return asked;
    }
    if (why.empty()) why = why_not;
  }
  LeaveToOwn(a, why);
  return std::nullopt;
}

void Attentions::LeaveToOwn(const LibraryAttention& a, const std::string& why) {
  if (kernels_ == AttentionKernels::kCudnn)
    throw CudaError(StrCat("cuda.attention is CUDNN, but cuDNN cannot run ", NameOf(a), ": ", why));
  Tell(a, StrCat("own kernels (", why, ")"));
}

void Attentions::ExpectOwn(std::string_view operation) const {
  if (kernels_ != AttentionKernels::kCudnn) return;
  throw CudaError(StrCat(
      "cuda.attention is CUDNN, but cuDNN cannot run ", operation,
      ": context parallelism needs attention to a part of the keys, which only our own kernels support; use AUTO"));
}

bool Attentions::TakesHopper(std::string_view why_not) {
  if (kernels_ != AttentionKernels::kHopper) return false;
  if (note_ && why_not_hopper_ != why_not) {  // told at every other change, so rarely
    why_not_hopper_ = why_not;
    TellOnce(why_not.empty() ? std::string("attention_forward: the Hopper kernel")
                             : StrCat("attention_forward: own kernels (not the Hopper kernel: ", why_not, ")"));
  }
  return why_not.empty();
}

void Attentions::Tell(const LibraryAttention& a, const std::string& whose) {
  if (note_)
    TellOnce(StrCat(a.pass == AttentionPass::kForward ? "attention_forward: " : "attention_backward: ", whose));
}

void Attentions::TellOnce(std::string note) {
  if (told_.insert(note).second) note_(std::move(note));
}

}  // namespace twofold::cuda
