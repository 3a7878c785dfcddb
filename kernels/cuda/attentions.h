// Attention of whole sequences by cuDNN, where it is there, has an engine for the shape, and keeps to the workspace that the operation
// has (core/device/ops/attention.h); the kernels of attention*.cu do all the rest.
//
// Results repeat to the last bit, run after run on one kind of GPU and one cuDNN, but for the backward pass where kCudnn is asked for, or
// bits may differ anyway, and the gradients of scores do not fit the workspace: the note of it says so.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "kernels/cuda/library_attention.h"

namespace twofold::cuda {

// cuDNN's plans of attention, on the current GPU. A build without cuDNN has none (no_cudnn.cc).
class AttentionPlans {
 public:
  AttentionPlans();
  ~AttentionPlans();
  // Why cuDNN does not do it with such a workspace; "" where it does. Its plan is made the first time.
  std::string WhyNot(const LibraryAttention& a, size_t workspace_bytes);
  // Where WhyNot is "". Throws CudaError.
  void Run(const LibraryAttention& a, GraphAddresses tensors, std::byte* workspace, size_t workspace_bytes, cudaStream_t stream);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;  // made when first used
  std::string why_no_handle_;                       // or why it could not be
};
// "cuDNN 9.19.0"; why there is none in why_not.
std::string CudnnVersion(std::string* why_not);
// Why cuDNN's attention cannot be had at all, of any shape; "" where it can.
std::string WhyNoCudnnAttention();

class Attentions {
 public:
  using Note = std::function<void(std::string note)>;
  Attentions(AttentionKernels kernels, bool any_bits) : kernels_(kernels), any_bits_(any_bits) {}

  // What a reader of results is to know: told once each.
  void SetNote(Note note) { note_ = std::move(note); }

  // Enqueues the operation. False: nothing has been done, it is for our own kernels. Throws CudaError, naming the operation, its shape
  // and the reason, where kCudnn is asked for and cuDNN cannot do it.
  bool Run(const ops::AttentionForward& o, std::byte* workspace, size_t workspace_bytes, cudaStream_t stream);
  bool Run(const ops::AttentionBackward& o, std::byte* workspace, size_t workspace_bytes, cudaStream_t stream);
  // Of a rectangle of the scores, which cuDNN does not add to others' results.
  void ExpectOwn(std::string_view operation) const;

 private:
  bool Run(const LibraryAttention& a, const GraphAddresses& tensors, std::byte* workspace, size_t workspace_bytes, cudaStream_t stream);
  // As which of AskedFor cuDNN does it; none: our kernels do.
  std::optional<LibraryAttention> Decide(const LibraryAttention& a, size_t workspace_bytes);
  // Tells why, or throws.
  void LeaveToOwn(const LibraryAttention& a, const std::string& why);
  void Tell(const LibraryAttention& a, const std::string& whose);

  const AttentionKernels kernels_;
  const bool any_bits_;
  AttentionPlans plans_;
  std::map<LibraryAttention, std::optional<LibraryAttention>> decided_;
  Note note_;
  std::set<std::string> told_;
};

}  // namespace twofold::cuda
