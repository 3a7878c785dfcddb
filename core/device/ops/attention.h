// Attention, tiled: the score matrix is never stored (Dao et al. 2022).
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// qkv[b, t, (heads + 2 * kv_heads) * head_dim]: all queries, then all keys, then all values of a position.
// out[b, t, heads * head_dim]; lse (f32)[b, heads, t] = log of the softmax's denominator. Scale 1/sqrt(head_dim).
struct AttentionForward { Tensor qkv, out, lse; int64_t heads = 1, kv_heads = 1; bool causal = true; };
struct AttentionBackward { Tensor qkv, out, lse, dout, dqkv; int64_t heads = 1, kv_heads = 1; bool causal = true; };

namespace rules {
KernelKey Key(const AttentionForward&);
Cost CostOf(const AttentionForward&);
void CheckShapes(const AttentionForward&);
Bytes CpuWorkspace(const AttentionForward&, int threads);
Bytes CudaWorkspace(const AttentionForward&);  // a little, where cuDNN may do it
KernelKey Key(const AttentionBackward&);
Cost CostOf(const AttentionBackward&);
void CheckShapes(const AttentionBackward&);
Bytes CpuWorkspace(const AttentionBackward&, int threads);
// (f32)[b, heads, t]: sums of dout * out. Where cuDNN may do it also f32 sums of the gradients of queries and, where heads share keys
// and values, the gradients of these for each head. The same whoever does it.
Bytes CudaWorkspace(const AttentionBackward&);
}  // namespace rules

}  // namespace twofold::ops
