// The time of tiled attention (Dao 2023, "FlashAttention-2"; Shah et al. 2024, "FlashAttention-3"): one law for all
// GPUs, with the constants of cluster.AttentionLaw.
//
// Each head's queries are cut into tiles of `tile_rows`; each tile runs on one of M multiprocessors in steps of
// `tile_keys` keys. Under a causal mask, a tile stops at its last query's key:
//   step    = width(head_dim) 4 tile_rows tile_keys head_dim M / tflops
//   T       = batch heads (step (steps of a head) + tile_us (tiles of a head));  tiles = batch heads (tiles of a head)
//   longest = step (steps of the longest tile) + tile_us;                        f = tiles / M
//   C       = longest if f <= 1, else the larger of longest and
//             T / M + evenness (ceil(f) / f - 1) T / M + tail min(1, f - 1) longest
//   seconds = |C, bytes / memory|_sharpness + call_us + (bytes of keys and values) / keys
// `tail`: tiles of causal attention differ, so that the last ones end late. The term with `keys` is only for libraries
// that serve requests, which write keys and values into a cache first (the tables have it, training does not). The
// backward pass has 5 products instead of 2, at KernelLaws.attention_backward_efficiency of the forward pass' rate,
// reads and writes twice as many bytes, and its tiles are of keys.
//
// Assumes: queries, keys, values and results in the device's memory; keys of one head group read once.
// Ignores: the power limit (attention stays below it), windows, dropout, softmax's own time apart from `widths`.
// Calibrated from: tables of batch, sequence, heads, kv_heads, head_dim and times by `twofold calibrate --from`.
#pragma once

#include <cstdint>
#include <utility>

#include "core/proto/cluster.pb.h"

namespace twofold {

struct AttentionCall {
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, head_dim = 64;
  bool causal = true;  // queries == keys
  bool backward = false;
  double rate = 1;           // factor on tflops, for another type on the same multiprocessors
  double element_bytes = 2;  // of an operand
  bool cached = false;       // keys and values are written into a cache first

  friend bool operator==(const AttentionCall&, const AttentionCall&) = default;
  template <class H>
  friend H AbslHashValue(H state, const AttentionCall& c) {
    return H::combine(std::move(state), c.batch, c.queries, c.keys, c.heads, c.kv_heads, c.head_dim, c.causal,
                      c.backward, c.rate, c.element_bytes, c.cached);
  }
};

// Seconds. `laws` passes CheckLaws and `law` is one of its kind.
double AttentionSeconds(const cluster::KernelLaws& laws, const cluster::AttentionLaw& law, const AttentionCall& call);

// The law in the variant of laws.column, else the first; null if there is none.
const cluster::AttentionLaw* AttentionLawOf(const cluster::KernelLaws& laws);

// Half-width of the interval, as a share of the time: the p90 of residuals of sequences as long; 0.3 without any.
double AttentionError(const cluster::AttentionLaw& law, int64_t queries);

}  // namespace twofold
