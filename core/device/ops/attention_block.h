// Attention over a rectangle of the score matrix: some queries against some keys. The results of several rectangles of
// the same queries are merged by the log-sum-exps of their rows, in any order (Liu et al. 2023, "Ring Attention with
// Blockwise Transformers"; Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", for the
// arithmetic).
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// The rectangle. The tensors [b, t, ..] may have more rows than it.
struct AttentionBlock {
  int64_t heads = 1, kv_heads = 1, head_dim = 0;
  int64_t first_query = 0, queries = 0;  // rows of q, and of all tensors with a row per query
  int64_t first_key = 0, keys = 0;       // rows of kv
  bool causal = false;                   // query i of the rectangle sees only its keys [0, i]; requires queries == keys
};

// Queries are the first heads * head_dim columns of q [b, tq, ..]. Keys, then values, are the last 2 * kv_heads *
// head_dim columns of kv [b, tk, ..]. Both may be the same qkv, as in attention.h. out (f32)[b, tq, heads * head_dim];
// lse (f32)[b, heads, tq].
// `merge`: out and lse hold the result for other keys and are updated to the result for both.
struct AttentionBlockForward {
  Tensor q, kv, out, lse;
  AttentionBlock block;
  bool merge = false;
};
// out and lse are the result for all keys that the queries see. Gradients are laid out in dq and dkv (f32) as queries,
// keys and values are in q and kv. `accumulate` applies to both. Elements outside the rectangle are unchanged.
struct AttentionBlockBackward {
  Tensor q, kv, out, lse, dout, dq, dkv;
  AttentionBlock block;
  bool accumulate = false;
};

namespace rules {
Bytes CpuWorkspace(const AttentionBlockForward&, int threads);
Bytes CpuWorkspace(const AttentionBlockBackward&, int threads);
// (f32)[b, heads, queries]: sums of dout * out. Large enough for all tq queries, whatever the rectangle, so that ranks
// with different rectangles hold equally much.
Bytes CudaWorkspace(const AttentionBlockBackward&);
}  // namespace rules

}  // namespace twofold::ops
