// The latency of a flow's route: its part of the formula in schedule.h.
#pragma once

#include <vector>

#include "topologies/routing.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

// Seconds, end to end, for a message of no bytes: the topology's own figure on its default route, and the mean over a flow's
// paths (by their shares of it) where another policy has chosen them.
double RouteLatency(const Topology& topology, RoutingPolicy policy, Pair pair, const std::vector<Path>& paths);

}  // namespace twofold::sim
