// Where a group's ranks are in a topology: the information that algorithms and libraries get about it.
#pragma once

#include <span>

#include "sim/collectives/schedule.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

// `endpoints`: of each rank of the group, at least one. Alpha and bandwidth between nodes are those of the default
// route from the first rank to the farther one of two ranks on other nodes: the middle and the last one. Inside a node
// they are those between the first two ranks that share one. A group within one node has the node's values for both.
// Joints are only computed for nodes of up to kMostJoined ranks.
inline constexpr int kMostJoined = 8;
Places PlacesOf(const Topology& topology, std::span<const int> endpoints);

}  // namespace twofold::sim
