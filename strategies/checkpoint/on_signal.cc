#include "strategies/checkpoint/on_signal.h"

#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::checkpoint {

void EndAsAsked(RankContext& rank, int64_t step, bool saved) {
  rank.world().Barrier().Wait();
  throw Interrupted(rank.rank(),
                    StrCat("rank ", rank.rank(), ": a signal asked the run to end (train.checkpoint.on_signal); ",
                           saved ? StrCat("it saved a checkpoint after step ", step)
                                 : StrCat("no step was done since step ", step, ", so nothing was saved")));
}

}  // namespace twofold::checkpoint
