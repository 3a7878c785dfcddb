// The simulated fabric's row. with_simulated.cc or no_simulated.cc defines it: CMake chooses.
#pragma once

#include "backends/registry.h"

namespace twofold {

const Backend& SimulatedBackend();

}  // namespace twofold
