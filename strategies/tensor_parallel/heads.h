// Attention whose heads are split over ranks (Shoeybi et al. 2019, section 3). Rank r of n holds query heads
// [r, r + 1) * heads / n and computes attention with them alone. If there are fewer key/value heads than ranks,
// n / kv_heads consecutive ranks hold the same key/value head. Each computes it and gets the part of its gradient from
// its own queries, so the gradients of these ranks are summed before the update (kKeyValueTag).
//
//   memory         1/n of the query heads; 1/n of the key/value heads, but at least one
//   communication  none in attention; the sums of gradients of shared key/value heads (data_parallel/holder_sums.h)
//   compute        1/n of the attention; key/value heads that ranks share are computed by each of them
// For use see column_linear.h.
// Limits: n divides the number of query heads; n divides the number of key/value heads or is a multiple of it.
#pragma once

#include <vector>

#include "core/nn/layers.h"

namespace twofold {

struct HeadShare {
  HeadShare(const nn::Heads& heads, int rank, int ranks);
  nn::Heads local;
  int64_t first_query, first_key;  // indices of heads in the whole model
  int sharers;                     // number of ranks with the same key/value heads
  bool owns_keys;                  // whether this rank is the first of them

  // This rank's rows of a layer from hidden to the queries, keys and values of `heads`.
  std::vector<nn::ShardLayout::Range> ranges(const nn::Heads& heads) const;
};

}  // namespace twofold
