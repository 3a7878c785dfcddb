// One rank's tokens of every sample, as a dataset. The ranks of a context-parallel group read the same samples through
// it. A sample is read whole on the host, and only the rank's chunks (zig_zag.h) are passed on to the device.
#pragma once

#include <memory>

#include "core/data/dataset.h"
#include "strategies/context_parallel/zig_zag.h"

namespace twofold {

// `whole` has inputs and targets [t]; 2 * place.ranks must divide t. The shard's are [t / place.ranks]. `whole` must
// outlive it.
std::unique_ptr<Dataset> MakeSequenceShard(const Dataset& whole, const ZigZag& place);

}  // namespace twofold
