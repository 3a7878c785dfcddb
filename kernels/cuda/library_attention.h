// Attention as cuDNN takes it: a graph of products, element by element operations and reductions, of which its attention engines
// know the pattern (cuDNN's developer guide, "Graph API", "Fused Flash Attention"; forward and backward as in Dao 2023, algorithms 1
// and 2). The graph is a value: it can be computed step by step, and so be tested, where there is no cuDNN. Nothing here calls CUDA.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/device/ops.h"

namespace twofold::cuda {

enum class AttentionPass { kForward, kBackward };

// Attention of whole sequences, of tensors as they lie in memory (core/device/ops/attention.h).
struct LibraryAttention {
  AttentionPass pass;
  DType type;
  int64_t batch, rows, heads, kv_heads, dim;
  bool causal;
  // Backward: the gradient of a query is a sum over blocks of keys. Repeatable: one block makes it, from the gradients of all scores,
  // which are written down (2 bytes each). Else blocks add to it in the order that they happen to end in, in f32: last bits may
  // differ from run to run.
  bool repeatable = true;
  int64_t columns() const { return (heads + 2 * kv_heads) * dim; }  // of qkv
  friend auto operator<=>(const LibraryAttention&, const LibraryAttention&) = default;
};
LibraryAttention Described(const ops::AttentionForward& o);
LibraryAttention Described(const ops::AttentionBackward& o);
// "attention_backward bf16, batch 8 t 1024 heads 12 of 12 x 64 causal".
std::string NameOf(const LibraryAttention& a);

// The first cuDNN whose attention is used. Earlier ones of version 9 go wrong backward without a mask where t is no multiple of 128
// (until 9.15), or altogether (9.10.0 and 9.10.1).
inline constexpr int kOldestCudnnVersion = 91600;
// Why not one of `version`, as cudnnGetVersion has it; "" where it may be.
std::string WhyNotVersion(int64_t version);
// Why a cuDNN of that version has no such attention on a GPU of compute capability `major`; "" where it may.
// Whether it does is known when its plan is made.
std::string WhyNotCudnn(const LibraryAttention& a, int major, int64_t version);

// Whose kernels attention runs on. kAuto: cuDNN's where they can be had. Who insists on cuDNN gets what cannot be repeated, too.
enum class AttentionKernels { kAuto, kOwn, kCudnn };
// What cuDNN is asked for, in turn, until it has an engine that fits the workspace. any_bits: the last bits of results may differ from
// run to run anyway.
std::vector<LibraryAttention> AskedFor(const LibraryAttention& a, AttentionKernels kernels, bool any_bits);

// Tensors of a graph that lie in memory: the operation's own, and what the backward pass keeps in its workspace.
enum class GraphOperand { kQ, kK, kV, kOut, kLse, kDOut, kDQ, kDK, kDV, kDelta, kDQSums };
inline constexpr size_t kGraphOperands = 11;
using GraphAddresses = std::array<void*, kGraphOperands>;  // by GraphOperand; null where a graph has none
// Where it begins within the operation's tensor, in elements: q, k and v are parts of qkv.
int64_t FirstElement(const LibraryAttention& a, GraphOperand operand);

enum class GraphType { kF32, kNarrow, kI32, kBool };  // kNarrow: LibraryAttention::type
// [batch, heads, rows, columns]; strides in elements. Neither operand nor value: it exists within the graph alone.
struct GraphTensor {
  std::array<int64_t, 4> dims, strides;
  GraphType type = GraphType::kF32;
  std::optional<GraphOperand> operand = std::nullopt;
  std::optional<float> value = std::nullopt;  // a constant
};
enum class GraphStep {
  kMatMul,    // in[0] in[1]; a head of in[1] may be shared by several that follow one another in in[0]
  kMultiply, kSubtract, kAdd, kDivide,  // in[0] (op) in[1], which is repeated along dimensions of size 1
  kExp, kLog, kIdentity,
  kRow, kColumn,      // the index of each element
  kNotBefore,         // in[0] >= in[1]
  kSelect,            // in[2] ? in[0] : in[1]
  kMaximum, kSum,     // over those dimensions of in[0] in which the result is smaller; heads: over those that share one
  kView,              // the same elements under other dimensions
};
struct GraphNode {
  GraphStep step;
  std::vector<size_t> in;  // of Graph::tensors
  size_t out;
};
struct AttentionGraph {
  std::vector<GraphTensor> tensors;
  std::vector<GraphNode> nodes;
};
AttentionGraph GraphOf(const LibraryAttention& a);

// What of the workspace the graph's own tensors take: first delta, f32 [batch, heads, rows], then the sums of dq, f32
// [batch, heads, rows, dim], where it has them. The rest is the plan's.
struct AttentionWorkspace {
  size_t delta = 0, dq_sums = 0;  // bytes, multiples of 512
  size_t bytes() const { return delta + dq_sums; }
};
AttentionWorkspace WorkspaceOf(const LibraryAttention& a);

}  // namespace twofold::cuda
