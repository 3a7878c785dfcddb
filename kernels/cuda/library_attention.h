// Attention in cuDNN's form (library_graph.h): a graph whose pattern cuDNN's attention engines recognise (cuDNN's
// developer guide, "Graph API", "Fused Flash Attention"; forward and backward as in Dao 2023, algorithms 1 and 2).
// Nothing here calls CUDA.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "core/device/ops.h"
#include "kernels/cuda/library_graph.h"

namespace twofold::cuda {

enum class AttentionPass { kForward, kBackward };

// Attention of whole sequences, on tensors in their memory layout (core/device/ops/attention.h).
struct LibraryAttention {
  AttentionPass pass;
  DType type;
  int64_t batch, rows, heads, kv_heads, dim;
  bool causal;
  // Backward only: the gradient of a query is a sum over blocks of keys. If repeatable, one block computes it from the
  // gradients of all scores, which are stored (2 bytes each). Otherwise blocks add to it in f32 in the order in which
  // they finish, so last bits may differ from run to run.
  bool repeatable = true;
  int64_t columns() const { return (heads + 2 * kv_heads) * dim; }  // of qkv
  friend auto operator<=>(const LibraryAttention&, const LibraryAttention&) = default;
};
LibraryAttention Described(const ops::AttentionForward& o);
LibraryAttention Described(const ops::AttentionBackward& o);
// "attention_backward bf16, batch 8 t 1024 heads 12 of 12 x 64 causal".
std::string NameOf(const LibraryAttention& a);

// The oldest cuDNN version whose attention is used. Earlier 9.x versions give wrong results in the backward pass
// without a mask if t is not a multiple of 128 (until 9.15), or in all cases (9.10.0 and 9.10.1).
inline constexpr int kOldestCudnnVersion = 91600;
// Why `version`, in the format of cudnnGetVersion, is not used; "" if it is.
std::string WhyNotVersion(int64_t version);
// Why a cuDNN of that version cannot have this attention on a GPU of compute capability `major`; "" if it may have it.
// Only making its plan shows whether it does.
std::string WhyNotCudnn(const LibraryAttention& a, int major, int64_t version);

// Whose kernels run attention. kAuto: cuDNN's if available. kCudnn: only cuDNN's, even if results are not repeatable.
// kHopper: our own, forward attention by attention_hopper.cu where it can.
enum class AttentionKernels { kAuto, kOwn, kCudnn, kHopper };
// The variants to request from cuDNN, in order, until one has an engine that fits the workspace. any_bits: the last
// bits of results may differ from run to run anyway.
std::vector<LibraryAttention> AskedFor(const LibraryAttention& a, AttentionKernels kernels, bool any_bits);

// Offset of the operand within the operation's tensor, in elements: q, k and v are parts of qkv.
int64_t FirstElement(const LibraryAttention& a, GraphOperand operand);

// Dimensions are [batch, heads, rows, columns].
LibraryGraph GraphOf(const LibraryAttention& a);

// The part of the workspace for the graph's own tensors: first delta, f32 [batch, heads, rows], then, if the graph has
// them, the sums of dq, f32 [batch, heads, rows, dim]. The rest is the plan's.
struct AttentionWorkspace {
  size_t delta = 0, dq_sums = 0;  // bytes, multiples of 512
  size_t bytes() const { return delta + dq_sums; }
};
AttentionWorkspace WorkspaceOf(const LibraryAttention& a);
// What to tell whoever wonders why cuDNN does not run a repeatable backward pass with this workspace: that the
// gradients of the scores do not fit, and which cuda.attention_workspace_mib they would fit. "" if they fit.
std::string MoreWorkspace(const LibraryAttention& a, size_t workspace_bytes);

}  // namespace twofold::cuda
