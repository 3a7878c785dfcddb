// One rank's tokens of every sample, as a dataset: what the ranks of a context-parallel group read of the same samples. A
// sample is read whole on the host and its chunks (zig_zag.h) alone are handed on, so that the device never sees the others.
#pragma once

#include <memory>

#include "core/data/dataset.h"
#include "strategies/context_parallel/zig_zag.h"

namespace twofold {

// `whole` has inputs and targets [t], with 2 * place.ranks dividing t, and outlives the shard, whose own are [t / place.ranks].
std::unique_ptr<Dataset> MakeSequenceShard(const Dataset& whole, const ZigZag& place);

}  // namespace twofold
