// Collectives over shared memory: every rank does its share of the work on everybody's operands.
//
// Each byte of input is read once and each byte of output written once, over all ranks; nothing is staged. What each rank
// does is stated above its function in the source.
#pragma once

#include <span>

#include "backends/host/run_state.h"

namespace twofold::in_memory {

using host::Call;

// `rank`'s share of the collective that `calls`, by rank, agree on. All ranks have arrived, and none returns to its
// caller before all shares are done. Does not block.
void DoShare(std::span<const Call* const> calls, int rank);

}  // namespace twofold::in_memory
