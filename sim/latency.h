// The latency of a flow's route: its part of the formula in schedule.h.
#pragma once

#include <vector>

#include "sim/collectives/schedule.h"
#include "topologies/routing.h"
#include "topologies/topology.h"

namespace twofold::sim {

// Seconds, end to end, for a message of no bytes: the topology's own figure on its default route, and the mean over a flow's
// paths (by their shares of it) where another policy has chosen them.
double RouteLatency(const Topology& topology, RoutingPolicy policy, Pair pair, const std::vector<Path>& paths);

// A phase's, from those of its flows' routes, in their order; `alpha`: of a round of messages, where there are no flows.
double PhaseLatency(const Phase& phase, const std::vector<double>& latencies, double alpha);

}  // namespace twofold::sim
