// The end of a run that saves when SIGTERM asks it to end (train.checkpoint.on_signal).
#pragma once

#include <cstdint>

#include "core/run/rank_context.h"

namespace twofold::checkpoint {

// Call it when the checkpoint after `step` steps is complete and recorded; `saved`: false if no step was done, so that
// there was nothing to save. Throws Interrupted on every rank. First all ranks meet, so that no rank's end cuts off
// rank 0, which completes the checkpoint for all. Collective over all ranks.
[[noreturn]] void EndAsAsked(RankContext& rank, int64_t step, bool saved);

}  // namespace twofold::checkpoint
