// Tiled attention: the score matrix is never stored (Dao et al. 2022).
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// qkv[b, t, (heads + 2 * kv_heads) * head_dim]: all queries, then all keys, then all values of a position.
// out[b, t, heads * head_dim]; lse (f32)[b, heads, t] = log of the softmax's denominator. Scale 1/sqrt(head_dim).
struct AttentionForward {
  Tensor qkv, out, lse;
  int64_t heads = 1, kv_heads = 1;
  bool causal = true;
};
struct AttentionBackward {
  Tensor qkv, out, lse, dout, dqkv;
  int64_t heads = 1, kv_heads = 1;
  bool causal = true;
  int64_t score_limit = 0;  // on a GPU: bytes that the gradients of all scores may take in the workspace
};

namespace rules {
Bytes CpuWorkspace(const AttentionForward&, int threads);
Bytes CudaWorkspace(const AttentionForward&);  // small; used if cuDNN may run it
Bytes CpuWorkspace(const AttentionBackward&, int threads);
// (f32)[b, heads, t]: sums of dout * out. If cuDNN may run it, also, if heads share keys and values, the gradients of
// keys and values for each head, and the larger of two: f32 sums of the gradients of the queries, which blocks add to
// in any order; and the gradients of all scores, for sums in a fixed order, if they take at most score_limit bytes. The
// size is the same whichever kernel runs.
Bytes CudaWorkspace(const AttentionBackward&);
// The gradients of the scores of `heads` heads (over all samples) of t x t scores, as cuDNN stores them: 2 bytes each,
// t rounded up to a multiple of 128 (what cuDNN 9.19 asks for on A100 and H100; graph_plan_test).
Bytes CudaScoreGradients(int64_t heads, int64_t t);
}  // namespace rules

}  // namespace twofold::ops
