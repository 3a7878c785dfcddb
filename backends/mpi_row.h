// The MPI fabric's row. with_mpi.cc or no_mpi.cc defines it: CMake chooses.
#pragma once

#include "backends/registry.h"

namespace twofold {

const Backend& MpiBackend();

}  // namespace twofold
