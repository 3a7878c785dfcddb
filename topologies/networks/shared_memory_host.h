// One host whose ranks share memory. Every rank moves bytes through its own core, and all cores use one memory system.
//
//     core0   core1   core2      `core_bandwidth` each
//         \     |     /
//        [memory system]         `total_bandwidth`, shared
//
// One byte moved is one byte read and one byte written, as in a copy. `latency` is the time of one synchronisation of
// the ranks.
#pragma once

#include <memory>

#include "topologies/graph/topology.h"

namespace twofold {

struct SharedMemoryHostOptions {
  int ranks = 2;
  BytesPerSecond core_bandwidth{10e9};
  BytesPerSecond total_bandwidth{20e9};
  Seconds latency{2e-6};
};
std::unique_ptr<Topology> MakeSharedMemoryHost(const SharedMemoryHostOptions& options);

}  // namespace twofold
