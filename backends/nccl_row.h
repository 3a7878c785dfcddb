// The NCCL fabric's row. with_nccl.cc or no_nccl.cc defines it: CMake chooses.
#pragma once

#include "backends/registry.h"

namespace twofold {

const Backend& NcclBackend();

}  // namespace twofold
