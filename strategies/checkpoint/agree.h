// Makes all ranks agree on the checkpoint that a run resumes from: rank 0 decides, and its manifest holds for all.
//
// Ranks may see different folders: hosts may have disks of their own, and a file system may show some hosts an old
// state. So rank 0 alone looks for the latest good checkpoint and reads its manifest, once. The other ranks receive its
// name and manifest over the world's group. Each block that a rank then reads is checked against the checksums in this
// manifest (block_file.h), so no rank can resume from anything else: it fails, and WhatIsHere says what it sees
// instead.
//
// In simulations without data nothing can be sent. The ranks are then on one machine, and each looks for itself.
// Messages and memory are those of a run with data.
#pragma once

#include <string>

#include "core/base/errors.h"
#include "core/io/checkpoint_folder.h"
#include "core/run/rank_context.h"
#include "strategies/checkpoint/load.h"

namespace twofold::checkpoint {

// The checkpoint that `path` names for rank 0. It is the same on all ranks, but its path may differ: each rank has the
// path of the checkpoint or of the folder around it. `read`: the checkpoint, if this process has already read it and
// checked that it fits `run`; if null, that is done here. Collective over all ranks. Throws RankFailure.
Opened Agree(RankContext& rank, const std::string& path, const ResumingRun& run, const Opened* read);

// A text to append to an error about the checkpoint's files: how what this rank sees there differs from the checkpoint
// that rank 0 resumes from. Empty if it does not differ.
std::string WhatIsHere(const RankContext& rank, const Opened& opened);

// Whether `here` is true on every rank. In simulations without data: true. Collective over all ranks.
bool OnAllRanks(RankContext& rank, bool here);

// The error of a rank that cannot resume. Names the rank and its host. Throws if the rank is lost or interrupted.
RankFailure CannotResume(RankContext& rank, const std::string& why);

}  // namespace twofold::checkpoint
