// The last checkpoint of a run that all members can read. Members that know which ones are complete may be lost, so
// rank 0 looks for them in the folder, and one that some rank cannot read is passed over by all.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/io/checkpoint_folder.h"
#include "core/run/rank_context.h"

namespace twofold::elastic {

// Tries the checkpoints of `folder` with greater sequence numbers than `sequence_before`, which rank 0 alone must know,
// the last one first. `load` gets on rank 0 what it has found, and nullopt on the others; it is collective over those
// that train, and returns why this rank cannot read it, or "". Returns the steps of the checkpoint that was loaded; 0:
// there is none. Notes on rank 0 say what was passed over. Collective over the generation. Throws RunOver if there are
// checkpoints and none can be read.
int64_t LoadLast(RankContext& ctx, const std::string& folder, int64_t sequence_before,
                 const std::function<std::string(const std::optional<checkpoint::Opened>& found)>& load);

}  // namespace twofold::elastic
