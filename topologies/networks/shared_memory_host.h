// One host whose ranks share memory: every rank moves bytes through its own core, all of them through one memory system.
//
//     core0   core1   core2      `core_bandwidth` each
//         \     |     /
//        [memory system]         `total_bandwidth`, shared
//
// A byte moved is one byte read and written: what a copy does. `latency` is one meeting of ranks.
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
