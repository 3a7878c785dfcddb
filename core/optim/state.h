// What optimizers keep for a slice, and know of it.
#pragma once

#include "core/optim/optimizer.h"

namespace twofold::optim {

// One zero per element, f32 (f64 for f64 slices).
Tensor NewMoment(nn::Context& ctx, const Slice& slice);

// The f32 copy of a narrow slice, made from its present value; empty for f32 and f64.
Tensor NewMaster(nn::Context& ctx, const Slice& slice);

// Weight decay as operations are told it: its rate, and the elements that it leaves alone where others decay. A slice of
// which nothing decays has rate 0. Padding may be on either side: it is zero, and decays to zero.
struct Decay { double rate = 0; ops::ElementRanges undecayed; };
Decay DecayOf(const Slice& slice, double rate);

// The draws of elements [first, first + count) of a narrow slice, as an operation on these is told them; null of other types. Padding,
// which stays zero, has those of what is before it. Of a parameter that tp or ep cuts they go by the place in the rank's cut, not in the whole: other degrees round otherwise.
ops::RoundingKeys RoundingKeysOf(const Slice& slice, int64_t first, int64_t count, uint64_t seed);

}  // namespace twofold::optim
