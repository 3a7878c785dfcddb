// A cable between every two ports.
//
//     p0 --- p1      each line: one cable, `bandwidth` each way; latency: cable and both NICs
//      | \ / |
//     p2 --- p3
//
// Cost: no switches, n (n-1) / 2 cables, diameter 1, bisection (n/2)^2 * bandwidth. One minimal route; n - 2 detours,
// one through each other port.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "topologies/networks/network.h"

namespace twofold {

struct FullMeshNetworkOptions {
  int ports = 2;  // at most 4096
  Wiring wiring;  // bandwidth: of every cable; switching is not used
};

absl::Status Check(const FullMeshNetworkOptions& options);
// REQUIRES Check(options).ok().
std::unique_ptr<Topology> MakeFullMeshNetwork(const FullMeshNetworkOptions& options);

}  // namespace twofold
