// Communications of GPU buffers staged through host memory, for MPI libraries that are not CUDA-aware.
//
// The staging memory is pinned and of fixed size (core/comm/staging.h). A collective is split into pieces of half that
// size: while MPI works on one, the next is copied down and the previous one up. A message is split into pieces of one
// slot each, with as many in flight as its share of the slots. Each piece begins with the size of the whole message, so
// that a receiver that expects another size notices. Both sides split a message in the same way, regardless of the rest
// of its batch. Reductions run on the host.
#pragma once

#include <cstddef>
#include <span>

#include "backends/host/mover.h"
#include "backends/mpi/communicate.h"
#include "core/comm/communication.h"
#include "core/device/device.h"

namespace twofold::mpi {

// Like Communicate, for operands on `mover`'s device. `mover` has already begun the call (Mover::Begin), which starts
// after `after`. `slot`: the size of a slot, a multiple of 512 that is equal on all ranks. `memory`: at least one slot
// for each message.
int CommunicateStaged(const Communication& c, const Operands& at, const Channel& channel, host::Mover& mover,
                      const Event& after, std::span<std::byte> memory, int64_t slot);

}  // namespace twofold::mpi
