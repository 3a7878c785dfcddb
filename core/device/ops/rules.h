// Shared by the rules of several operations. Only for this folder's .cc files.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "core/base/strings.h"
#include "core/device/ops/op.h"

namespace twofold::ops::rules {

inline int64_t Rows(const Tensor& t) { return t.numel() / std::max<int64_t>(t.dim(-1), 1); }
inline int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
inline Bytes OrZero(const Tensor& t) { return t.empty() ? Bytes(0) : t.bytes(); }

// Workspace of cuBLASLt and cuDNN on a GPU: 32 MiB, as NVIDIA recommends for its newest GPUs.
inline constexpr Bytes kLibraryWorkspace = Bytes(32 << 20);
// Alignment of the parts of a GPU kernel's workspace.
inline constexpr int64_t kCudaAlignment = 512;

// A GPU sums a whole tensor in blocks of elements, each in double, and then adds the block sums. There are at most 1024
// blocks.
inline Bytes PartialSums(const Tensor& t) { return Bytes(8 * std::min<int64_t>(1024, (t.numel() + 4095) / 4096)); }

// Aborts and prints the shapes unless `ok`.
inline void Expect(bool ok, std::string_view op, std::initializer_list<const Tensor*> tensors) {
  if (ok) [[likely]]
    return;
  std::string text = StrCat(std::string(op), " does not accept shapes");
  for (const Tensor* t : tensors) StrAppend(&text, " ", t->ToString());
  TWOFOLD_CHECK(false, text);
}
inline bool OneOf(const Tensor& t, DType a, DType b) { return t.dtype() == a || t.dtype() == b; }
inline bool Like(const Tensor& a, const Tensor& b) { return a.numel() == b.numel() && a.dtype() == b.dtype(); }
inline bool Wide(const Tensor& t, const Tensor& like, int64_t numel) {  // "(f32)" with `numel` elements
  return t.numel() == numel && t.dtype() == AccumulationType(like.dtype());
}

inline KernelKey Flat(std::string_view name, const Tensor& t) { return {name, t.dtype(), {1, t.numel(), 0}}; }
inline KernelKey ByRows(std::string_view name, const Tensor& t) { return {name, t.dtype(), {Rows(t), t.dim(-1), 0}}; }
inline Cost Streaming(double flops_per_element, int64_t elements, Bytes read, Bytes written) {
  return {Flops(flops_per_element * static_cast<double>(elements)), read, written};
}

}  // namespace twofold::ops::rules
