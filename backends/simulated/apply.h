// Applies a collective to the data once all ranks have arrived: the arithmetic of REAL runs.
#pragma once

#include <span>

#include "core/comm/communication.h"

namespace twofold {

// `calls` is indexed by rank and has been checked to match. Reductions are in rank order, as on the in-memory fabric.
void ApplyCollective(std::span<const Communication* const> calls);

}  // namespace twofold
