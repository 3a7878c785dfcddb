// The latency of a flow's route: its term in the formula in schedule.h.
#pragma once

#include <vector>

#include "topologies/graph/topology.h"
#include "topologies/routing.h"

namespace twofold::sim {

// Seconds from end to end for a message of no bytes: the topology's own figure for its default route; for paths chosen
// by another policy, the mean over the flow's paths, weighted by their shares.
double RouteLatency(const Topology& topology, RoutingPolicy policy, Pair pair, const std::vector<Path>& paths);

}  // namespace twofold::sim
