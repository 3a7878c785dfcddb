// Which algorithm Open MPI 4.1.4 takes where nothing is forced.
#pragma once

#include "sim/collectives/schedule.h"

namespace twofold::sim {

// The number of an algorithm in OpenMpiAlgorithms(). Reductions commute.
int OpenMpiDecision(const CollectiveShape& shape);

}  // namespace twofold::sim
