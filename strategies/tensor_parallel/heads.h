// Attention whose heads are split over ranks (Shoeybi et al. 2019, section 3): rank r of n has heads [r, r + 1) * heads / n of the
// queries, and attends with them as if there were no others. Where keys and values have fewer heads than there are ranks, n / kv_heads
// ranks in a row have the same one: each computes it for itself and gets the part of its gradient that its own queries give,
// so that these ranks' gradients are summed before the update (ShardLayout::Sum::kKeyValue). n divides the heads of queries; it divides
// those of keys, or is a multiple of them.
#pragma once

#include <vector>

#include "core/nn/layers.h"

namespace twofold {

struct HeadShare {
  HeadShare(const nn::Heads& heads, int rank, int ranks);
  nn::Heads local;
  int64_t first_query, first_key;  // heads of the whole
  int sharers;                     // ranks with the same heads of keys
  bool owns_keys;                  // the first of them

  // Of the rows of a layer from hidden to queries, keys and values of `heads`: this rank's.
  std::vector<nn::ShardLayout::Range> ranges(const nn::Heads& heads) const;
};

}  // namespace twofold
