// Where a group's ranks sit in a topology: what algorithms and libraries are told of it.
#pragma once

#include <span>

#include "sim/collectives/schedule.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

// `endpoints`: of each rank of the group, one or more. Alpha and bandwidth between nodes are those of the default route
// between the first rank and the farther of the middle and the last one on other nodes; inside a node, between the first two
// ranks that share one. A group within one node has those of the node for both. Joints are looked at in nodes of up to kMostJoined ranks.
inline constexpr int kMostJoined = 8;
Places PlacesOf(const Topology& topology, std::span<const int> endpoints);

}  // namespace twofold::sim
