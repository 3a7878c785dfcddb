// Helpers for the per-slice state of optimizers.
#pragma once

#include "core/optim/optimizer.h"

namespace twofold::optim {

// Elements [first, first + count) of a slice.
Slice PartOf(const Slice& slice, int64_t first, int64_t count);

// One zero per element, f32 (f64 for f64 slices).
Tensor NewMoment(nn::Context& ctx, const Slice& slice);

// The F32 master of a BF16 or F16 slice, made from its present value; empty for F32 and F64.
Tensor NewMaster(nn::Context& ctx, const Slice& slice);

// Weight decay in the form that operations take: the rate, and the elements that do not decay although others do. If
// nothing in a slice decays, its rate is 0. Padding may be on either side: it is zero, and decays to zero.
struct Decay {
  double rate = 0;
  ops::ElementRanges undecayed;
};
Decay DecayOf(const Slice& slice, double rate);

// The stochastic-rounding keys of elements [first, first + count) of a BF16 or F16 slice, in the form that an operation
// on these elements takes; null for other types. Padding, which stays zero, has the keys of what precedes it. For a
// parameter that tp or ep shards, draws are keyed by the index in the rank's shard, not in the whole: other degrees
// round differently.
ops::RoundingKeys RoundingKeysOf(const Slice& slice, int64_t first, int64_t count, uint64_t seed);

}  // namespace twofold::optim
