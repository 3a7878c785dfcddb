// Which checkpoint a run goes on from: rank 0 decides, and its manifest holds for all.
//
// Ranks may see other folders than rank 0 does: hosts with disks of their own, a file system that shows some of them what was there
// a while ago. So rank 0 alone looks for the latest good checkpoint and reads its manifest, once; the others get its name and its
// manifest over the world's group. Each block that a rank then reads is held against the checksums in that manifest (block_file.h),
// so no rank can go on from anything else: it fails, and WhatIsHere says what it has in its place.
//
// Where no data exists nothing can be told. Such ranks are on one machine: each looks for itself. Messages and memory are those of a
// run with data.
#pragma once

#include <string>

#include "core/base/errors.h"
#include "core/proto/spec.pb.h"
#include "core/run/rank_context.h"
#include "core/io/checkpoint_folder.h"

namespace twofold::checkpoint {

// What spec.train.resume names for rank 0: the same at all ranks, with the path that it has at each. The rank's own spec has that path,
// or the folder around it, which may be another at each rank. `read`: as this process has read it before and held it against `spec`;
// null: it has not, and that is done here. Collective over all ranks. Throws RankFailure.
Opened Agree(RankContext& rank, const spec::Spec& spec, const Opened* read);

// To be added to an error about its files: how what this rank sees there differs from what rank 0 goes on from; "": it does not.
std::string WhatIsHere(const RankContext& rank, const Opened& opened);

// A failure to go on. Names the rank and its host.
RankFailure CannotResume(const RankContext& rank, const std::string& why);

}  // namespace twofold::checkpoint
