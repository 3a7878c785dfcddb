// Communications of what lies on a GPU through memory of the host: for MPI libraries that reach no GPU's.
//
// The memory is pinned and of a fixed size (core/comm/staging.h). A collective goes in pieces that take half of it: while MPI has one, the
// next is copied down and the last one up. A message goes in pieces that take a slot each, as many at a time as its share of the slots
// holds; each begins with the size of the whole message, so that one who expects another size finds out. Pieces are the same on both
// sides of a message, whatever else its batch holds. Reductions are the host's.
#pragma once

#include <cstddef>
#include <span>

#include "backends/host/mover.h"
#include "backends/mpi/communicate.h"
#include "core/comm/communication.h"
#include "core/device/device.h"

namespace twofold::mpi {

// As Communicate, of operands on `mover`'s device; `mover` has begun the call (Mover::Begin), which starts after `after`. `slot`: the size
// of a slot, a multiple of 512 that all ranks have alike; `memory`: one or more for each message.
int CommunicateStaged(const Communication& c, const Operands& at, const Channel& channel, host::Mover& mover, const Event& after,
                      std::span<std::byte> memory, int64_t slot);

}  // namespace twofold::mpi
