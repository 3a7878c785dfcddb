// Chooses who computes attention: cuDNN if it can (attentions.h); otherwise the tensor-core kernels for BF16 and F16 if
// head sizes and addresses allow, and the CUDA-core kernels for everything else. Hopper's kernel is used only if it is
// requested.
#include "kernels/cuda/attention.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/libraries.h"

namespace twofold::cuda {
namespace {

ops::AttentionBlock WholeSequence(const Tensor& qkv, int64_t heads, int64_t kv_heads, bool causal) {
  const int64_t t = qkv.dim(1);
  return {.heads = heads,
          .kv_heads = kv_heads,
          .head_dim = qkv.dim(2) / (heads + 2 * kv_heads),
          .queries = t,
          .keys = t,
          .causal = causal};
}

template <class T>
AttentionSizes<T> Sizes(int64_t batch, const ops::AttentionBlock& block) {
  TWOFOLD_CHECK(batch <= 65535 && block.heads <= 65535 && block.queries <= std::numeric_limits<int>::max() &&
                    block.keys <= std::numeric_limits<int>::max(),
                "the sizes fit the limits of a grid");
  return {.batch = static_cast<int>(batch),
          .heads = static_cast<int>(block.heads),
          .group = static_cast<int>(block.heads / block.kv_heads),
          .queries = static_cast<int>(block.queries),
          .keys = static_cast<int>(block.keys),
          .dim = static_cast<int>(block.head_dim),
          .causal = block.causal,
          .scale = static_cast<Wide<T>>(1 / std::sqrt(static_cast<double>(block.head_dim)))};
}

// The rows of a tensor [b, t, columns] from `first` on, whose heads begin at `column`.
template <class T>
HeadRows<T> RowsOf(const Tensor& t, int64_t rows, int64_t columns, int64_t first, int64_t column) {
  return {At<std::remove_const_t<T>>(t) + first * columns + column, rows * columns, columns};
}
// Queries, and tensors with the same layout, come first in a row; keys and values come last.
// (core/device/ops/attention_block.h)
template <class T>
HeadRows<T> Queries(const Tensor& q, const ops::AttentionBlock& b) {
  return RowsOf<T>(q, q.dim(1), q.dim(2), b.first_query, 0);
}
template <class T>
HeadRows<T> KeyRows(const Tensor& kv, const ops::AttentionBlock& b, int from_last) {
  return RowsOf<T>(kv, kv.dim(1), kv.dim(2), b.first_key, kv.dim(2) - from_last * b.kv_heads * b.head_dim);
}
template <class T>
HeadRows<T> Keys(const Tensor& kv, const ops::AttentionBlock& b) {
  return KeyRows<T>(kv, b, 2);
}
template <class T>
HeadRows<T> Values(const Tensor& kv, const ops::AttentionBlock& b) {
  return KeyRows<T>(kv, b, 1);
}
// The attention results, of any shape, for each of `t` rows.
template <class T>
HeadRows<T> Outputs(const Tensor& out, int64_t t, const ops::AttentionBlock& b) {
  return RowsOf<T>(out, t, b.heads * b.head_dim, b.first_query, 0);
}
template <class A>
RowNumbers<A> Lse(const Tensor& lse, int64_t t, const ops::AttentionBlock& b) {
  return {At<std::remove_const_t<A>>(lse) + b.first_query, b.heads * t, t};
}
template <class A>
RowNumbers<A> Workspace(const Context& c, const ops::AttentionBlock& b) {
  return {reinterpret_cast<A*>(c.workspace), b.heads * b.queries, b.queries};
}

// Whether rows can be accessed 16 bytes at a time (results in f32: 8), and are close enough for 32-bit indices within a
// tile.
template <class T>
bool Aligned(const HeadRows<T>& rows) {
  constexpr uintptr_t kBytes = sizeof(T) == 2 ? 16 : 8;
  return reinterpret_cast<uintptr_t>(rows.data) % kBytes == 0 && rows.row * sizeof(T) % kBytes == 0 &&
         rows.row < (1 << 22);
}
template <class T>
bool Aligned(const Results<T>& results) {
  return Aligned(results.narrow) && Aligned(results.wide);
}
template <class T>
bool DimFits(const AttentionSizes<T>& s) {
  return sizeof(T) == 2 && s.dim % 8 == 0 && s.dim <= kMostDim;
}

// Why Hopper's kernel cannot do it; "" if it can.
template <class T>
std::string_view WhyNotHopper(const ForwardOperands<T>& o, bool tensor_cores) {
  if (sizeof(T) != 2) return "it needs BF16 or F16";
  if (o.sizes.dim != 64 && o.sizes.dim != 128) return "it needs heads 64 or 128 wide";
  if (!tensor_cores) return "it needs rows that are aligned to 16 bytes and less than 2^22 elements apart";
  if (o.sizes.queries == 0 || o.sizes.keys == 0) return "it needs queries and keys";
  return "";
}

template <class T>
void Run(const ForwardOperands<T>& o, const Context& c) {
  const bool tensor_cores = DimFits(o.sizes) && Aligned(o.q) && Aligned(o.k) && Aligned(o.v) && Aligned(o.out);
  const bool hopper = c.libraries.attentions().TakesHopper(WhyNotHopper(o, tensor_cores));
  if constexpr (sizeof(T) == 2) {
    if (hopper) return TensorCoreForwardOfHopper(o, c);
    if (tensor_cores) return TensorCoreForward(o, c);
  }
  PlainForward(o, c);
}
template <class T>
void Run(const BackwardOperands<T>& o, const Context& c) {
  if constexpr (sizeof(T) == 2) {
    if (DimFits(o.sizes) && Aligned(o.q) && Aligned(o.k) && Aligned(o.v) && Aligned(o.out) && Aligned(o.dout) &&
        Aligned(o.dq) && Aligned(o.dk) && Aligned(o.dv)) {
      return TensorCoreBackward(o, c);
    }
  }
  PlainBackward(o, c);
}

}  // namespace

void Compute(const ops::AttentionForward& o, const Context& c) {
  if (c.libraries.attentions().Run(o, c.workspace, c.workspace_bytes, c.stream)) return;
  const ops::AttentionBlock block = WholeSequence(o.qkv, o.heads, o.kv_heads, o.causal);
  ForFloat(o.qkv.dtype(), [&]<class T>() {
    Run(ForwardOperands<T>{.sizes = Sizes<T>(o.qkv.dim(0), block),
                           .q = Queries<const T>(o.qkv, block),
                           .k = Keys<const T>(o.qkv, block),
                           .v = Values<const T>(o.qkv, block),
                           .out = {.narrow = Outputs<T>(o.out, block.queries, block)},
                           .lse = Lse<Wide<T>>(o.lse, block.queries, block)},
        c);
  });
}

void Compute(const ops::AttentionBlockForward& o, const Context& c) {
  c.libraries.attentions().ExpectOwn("attention_block_forward");
  const int64_t t = o.q.dim(1);
  ForFloat(o.q.dtype(), [&]<class T>() {
    Run(ForwardOperands<T>{.sizes = Sizes<T>(o.q.dim(0), o.block),
                           .q = Queries<const T>(o.q, o.block),
                           .k = Keys<const T>(o.kv, o.block),
                           .v = Values<const T>(o.kv, o.block),
                           .out = {.wide = Outputs<Wide<T>>(o.out, t, o.block), .add = o.merge},
                           .lse = Lse<Wide<T>>(o.lse, t, o.block)},
        c);
  });
}

void Compute(const ops::AttentionBackward& o, const Context& c) {
  if (c.libraries.attentions().Run(o, c.workspace, c.workspace_bytes, c.stream)) return;
  const ops::AttentionBlock block = WholeSequence(o.qkv, o.heads, o.kv_heads, o.causal);
  const int64_t t = block.queries;
  ForFloat(o.qkv.dtype(), [&]<class T>() {
    Run(BackwardOperands<T>{.sizes = Sizes<T>(o.qkv.dim(0), block),
                            .q = Queries<const T>(o.qkv, block),
                            .k = Keys<const T>(o.qkv, block),
                            .v = Values<const T>(o.qkv, block),
                            .out = Outputs<const T>(o.out, t, block),
                            .dout = Outputs<const T>(o.dout, t, block),
                            .dq = {.narrow = Queries<T>(o.dqkv, block)},
                            .dk = {.narrow = Keys<T>(o.dqkv, block)},
                            .dv = {.narrow = Values<T>(o.dqkv, block)},
                            .lse = Lse<const Wide<T>>(o.lse, t, block),
                            .delta = Workspace<Wide<T>>(c, block)},
        c);
  });
}

void Compute(const ops::AttentionBlockBackward& o, const Context& c) {
  c.libraries.attentions().ExpectOwn("attention_block_backward");
  const ops::AttentionBlock& block = o.block;
  const int64_t t = o.q.dim(1);
  ForFloat(o.q.dtype(), [&]<class T>() {
    using A = Wide<T>;
    Run(BackwardOperands<T>{.sizes = Sizes<T>(o.q.dim(0), block),
                            .q = Queries<const T>(o.q, block),
                            .k = Keys<const T>(o.kv, block),
                            .v = Values<const T>(o.kv, block),
                            .out = Outputs<const T>(o.out, t, block),
                            .dout = Outputs<const T>(o.dout, t, block),
                            .dq = {.wide = Queries<A>(o.dq, block), .add = o.accumulate},
                            .dk = {.wide = Keys<A>(o.dkv, block), .add = o.accumulate},
                            .dv = {.wide = Values<A>(o.dkv, block), .add = o.accumulate},
                            .lse = Lse<const A>(o.lse, t, block),
                            .delta = Workspace<A>(c, block)},
        c);
  });
}

}  // namespace twofold::cuda
