// Communications as blocking MPI calls.
#pragma once

#include <mpi.h>

#include "backends/mpi/types.h"
#include "core/comm/communication.h"

namespace twofold::mpi {

// Does `c` on the calling thread and returns when this rank's part is done; of a receive, the rank that sent, else -1.
// Throws std::runtime_error with MPI's words; what arrives in another size than was expected is an error, too.
int Communicate(const Communication& c, MPI_Comm comm, const Limits& limits);

}  // namespace twofold::mpi
