// Which algorithm Open MPI 4.1.4 chooses by default.
#pragma once

#include "sim/collectives/schedule.h"

namespace twofold::sim {

// The number of the algorithm in OpenMpiAlgorithms(). Assumes that reductions commute.
int OpenMpiDecision(const CollectiveShape& shape);

}  // namespace twofold::sim
