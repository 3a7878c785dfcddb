// The name of every operation's kernel, as ops::Key has it, and what kind of work it is: for who reads profiles and draws traces.
// A new operation's names have rows here; tests ask for them.
#pragma once

#include <span>
#include <string_view>

namespace twofold::ops {

enum class KernelClass {
  kProduct,    // of matrices, convolutions among them
  kAttention,  // scores, and what queries and keys go through on their way there
  kNorm,
  kElement,    // element by element, sums over elements, copies
  kLoss,       // embeddings and losses
  kOptimizer,
  kOther,      // pooling, routing to experts, gradient codecs
};

struct KernelRow {
  std::string_view name;
  KernelClass is;
};

std::span<const KernelRow> KernelRows();            // by name
const KernelRow* FindKernel(std::string_view name);  // nullptr: no operation has such a kernel
inline bool IsKernel(std::string_view name) { return FindKernel(name) != nullptr; }

}  // namespace twofold::ops
