// Collectives over memory that all ranks reach, in as many shares as there are ranks: each does a part of the work on
// everybody's operands.
//
// Each byte of input is read once and each byte of output written once, over all shares; nothing is staged. What a share
// is, is stated above its function in the source.
#pragma once

#include "backends/host/mover.h"
#include "backends/in_memory/rendezvous.h"

namespace twofold::in_memory {

using host::Mover;

// Has `mover` do one share of the collective that all ranks of `round` have arrived with; `c` is any rank's communication. Does not
// block. Different shares may be done at the same time; when all are, the collective is.
void DoShare(const Round& round, const Communication& c, int share, Mover& mover);

// Whether the whole of it takes less time than waking a thread that would do it. The same at every rank.
bool IsSmall(const Communication& c);

}  // namespace twofold::in_memory
