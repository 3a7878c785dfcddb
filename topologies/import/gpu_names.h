// NVIDIA's GPUs by the names that nvidia-smi prints.
#pragma once

#include <string_view>

#include "core/base/units.h"

namespace twofold {

struct NamedGpu {
  std::string_view word;  // of its name: "H100" of "NVIDIA H100 80GB HBM3"
  int sm;                 // compute capability: 90 is 9.0
  BytesPerSecond nvlink;  // of one link each way, by NVIDIA's data sheets
  BytesPerSecond pcie;    // of its 16 lanes each way, as it is reached in practice: the catalogue's rates
  std::string_view fit;   // the catalogue's cluster with such GPUs; empty: none
};

// The GPU whose word is one of the name's; null: none.
const NamedGpu* FindGpu(std::string_view name);

}  // namespace twofold
