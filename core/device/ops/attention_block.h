// Attention of a rectangle of the scores: some queries against some keys. What rectangles of the same queries give is put
// together by the log-sum-exps of their rows, in any order (Liu et al. 2023, "Ring Attention with Blockwise Transformers";
// Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", for the arithmetic).
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// The rectangle, of tensors [b, t, ..] that hold more rows than it.
struct AttentionBlock {
  int64_t heads = 1, kv_heads = 1, head_dim = 0;
  int64_t first_query = 0, queries = 0;  // rows of q, and of what has a row for each of its
  int64_t first_key = 0, keys = 0;       // rows of kv
  bool causal = false;                   // query i of it sees its keys [0, i] alone; as many keys as queries
};

// Queries are the first heads * head_dim columns of q [b, tq, ..]; keys and then values the last 2 * kv_heads * head_dim of
// kv [b, tk, ..]: both may be one qkv as in attention.h. out (f32)[b, tq, heads * head_dim]; lse (f32)[b, heads, tq].
// `merge`: out and lse hold the result of other keys, and become that of both.
struct AttentionBlockForward { Tensor q, kv, out, lse; AttentionBlock block; bool merge = false; };
// out and lse are those of all keys that the queries see. Gradients lie in dq and dkv (f32) as q and kv in theirs.
// `accumulate` is for both; what is outside the rectangle stays.
struct AttentionBlockBackward { Tensor q, kv, out, lse, dout, dq, dkv; AttentionBlock block; bool accumulate = false; };

namespace rules {
KernelKey Key(const AttentionBlockForward&);
Cost CostOf(const AttentionBlockForward&);
void CheckShapes(const AttentionBlockForward&);
Bytes CpuWorkspace(const AttentionBlockForward&, int threads);
KernelKey Key(const AttentionBlockBackward&);
Cost CostOf(const AttentionBlockBackward&);
void CheckShapes(const AttentionBlockBackward&);
Bytes CpuWorkspace(const AttentionBlockBackward&, int threads);
Bytes CudaWorkspace(const AttentionBlockBackward&);  // (f32)[b, heads, queries]: sums of dout * out
}  // namespace rules

}  // namespace twofold::ops
