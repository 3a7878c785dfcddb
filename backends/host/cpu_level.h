// Which of its CPU kernels this process uses (kernels/cpu/levels.h).
#pragma once

#include <string>

#include "absl/status/status.h"

namespace twofold::host {

// Whether this machine has the level that TWOFOLD_CPU_LEVEL names, or any. Programs ask at their start.
absl::Status CheckCpuLevel();
// "x86-64-v4 of v2, v3, v4" or "native".
std::string DescribeCpuLevel();

}  // namespace twofold::host
