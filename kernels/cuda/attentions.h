// Attention of whole sequences by cuDNN, if it is installed, has an engine for the shape, and needs no more workspace
// than the operation provides (core/device/ops/attention.h). The kernels of attention*.cu do everything else.
//
// Results are bitwise repeatable from run to run on one kind of GPU and one cuDNN version. The exception is the
// backward pass when the gradients of the scores do not fit the workspace and either kCudnn is requested or bits may
// differ anyway. The note (SetNote) then says so.
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

// cuDNN's attention plans on the current GPU. A build without cuDNN has none (no_cudnn.cc).
class AttentionPlans {
 public:
  AttentionPlans();
  ~AttentionPlans();
  // Returns why cuDNN cannot run it with this workspace, or "" if it can. The first call for an attention makes its
  // plan.
  std::string WhyNot(const LibraryAttention& a, size_t workspace_bytes);
  // Call only if WhyNot returns "". Throws CudaError.
  void Run(const LibraryAttention& a, GraphAddresses tensors, std::byte* workspace, size_t workspace_bytes,
           cudaStream_t stream);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;  // made on first use
  std::string why_no_handle_;                       // the reason, if it could not be made
};
// "cuDNN 9.19.0"; if there is none, the reason is in why_not.
std::string CudnnVersion(std::string* why_not);
// Why cuDNN's attention is unavailable for every shape; "" if it is available.
std::string WhyNoCudnnAttention();

class Attentions {
 public:
  using Note = std::function<void(std::string note)>;
  Attentions(AttentionKernels kernels, bool any_bits) : kernels_(kernels), any_bits_(any_bits) {}

  // Sets the receiver of messages for readers of results; each message is sent once.
  void SetNote(Note note) { note_ = std::move(note); }

  // Enqueues the operation. Returns false, having done nothing, if our own kernels must do it. Throws CudaError with
  // the operation, its shape and the reason if kCudnn is requested and cuDNN cannot do it.
  bool Run(const ops::AttentionForward& o, std::byte* workspace, size_t workspace_bytes, cudaStream_t stream);
  bool Run(const ops::AttentionBackward& o, std::byte* workspace, size_t workspace_bytes, cudaStream_t stream);
  // For a block of the scores: cuDNN does not add to the results of other blocks, so our own kernels do it.
  void ExpectOwn(std::string_view operation) const;
  // Whether Hopper's kernel does forward attention, for which `why_not`, a literal, must be "". Reports whether it
  // does, and why not, if kHopper is requested; otherwise false.
  bool TakesHopper(std::string_view why_not);

 private:
  bool Run(const LibraryAttention& a, const GraphAddresses& tensors, std::byte* workspace, size_t workspace_bytes,
           cudaStream_t stream);
  // Returns the variant of AskedFor that cuDNN runs; nullopt if our kernels do it.
  std::optional<LibraryAttention> Decide(const LibraryAttention& a, size_t workspace_bytes);
  // Reports the reason, or throws.
  void LeaveToOwn(const LibraryAttention& a, const std::string& why);
  void Tell(const LibraryAttention& a, const std::string& whose);
  void TellOnce(std::string note);

  const AttentionKernels kernels_;
  const bool any_bits_;
  AttentionPlans plans_;
  std::map<std::pair<LibraryAttention, size_t>, std::optional<LibraryAttention>> decided_;  // by workspace, too
  Note note_;
  std::set<std::string> told_;
  std::optional<std::string_view> why_not_hopper_;  // the last reason
};

}  // namespace twofold::cuda
