// Collectives over memory that all ranks can access. The work is divided into as many shares as there are ranks; each
// share is a part of the work on all ranks' operands.
//
// Over all shares, each input byte is read once and each output byte written once; nothing is staged. The source
// defines each share above its function.
#pragma once

#include "backends/host/mover.h"
#include "backends/in_memory/rendezvous.h"

namespace twofold::in_memory {

using host::Mover;

// Has `mover` do one share of the collective at which all ranks of `round` have arrived; `c` is any rank's
// communication. Does not block. Different shares may run concurrently; the collective is done when all shares are.
void DoShare(const Round& round, const Communication& c, int share, Mover& mover);

// Whether the whole collective takes less time than waking a thread to do it. Returns the same on every rank.
bool IsSmall(const Communication& c);

}  // namespace twofold::in_memory
