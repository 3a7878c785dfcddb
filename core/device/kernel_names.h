// The kernel name of every operation, as in ops::Key, and its class of work, for profiles and traces. A new operation
// needs rows here; tests check for them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/device/ops/op.h"

namespace twofold::ops {

enum class KernelClass {
  kProduct,    // matrix products, including convolutions
  kAttention,  // scores, and the steps that prepare queries and keys
  kNorm,
  kElement,  // element-wise operations, sums over elements, copies
  kLoss,     // embeddings and losses
  kOptimizer,
  kOther,  // pooling, routing to experts, gradient codecs, rounding to FP8
};

struct KernelRow {
  std::string_view name;
  KernelClass is;
};

std::span<const KernelRow> KernelRows();             // sorted by name
const KernelRow* FindKernel(std::string_view name);  // nullptr: no operation has a kernel of this name
inline bool IsKernel(std::string_view name) { return FindKernel(name) != nullptr; }

// How large the work of one call is: "512 x 768 x 768, bf16".
std::string ShapeText(const KernelKey& key);

}  // namespace twofold::ops
