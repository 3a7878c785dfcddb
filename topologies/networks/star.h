// A star: every host has one full-duplex link to one switch that never limits.
//
//     h0   h1   h2
//       \   |   /        each line: one link up, one link down, `bandwidth` each way
//        [switch]        latency end to end: `latency`
//
// Cost: 1 switch, n cables; diameter 2; bisection n/2 * bandwidth.
#pragma once

#include <memory>

#include "topologies/graph/topology.h"

namespace twofold {

struct StarOptions {
  int hosts = 2;
  BytesPerSecond bandwidth{25e9};
  Seconds latency{2e-6};
};
std::unique_ptr<Topology> MakeStar(const StarOptions& options);

}  // namespace twofold
