// Chooses the NIC of each device of a node.
#pragma once

#include <vector>

#include "topologies/graph/cluster_topology.h"

namespace twofold {

// By device: the NIC with the fewest cables between, not counting NVLink paths. Ties go to the NIC that fewer earlier
// devices use, then to the first. Empty if there are no NICs.
std::vector<int> NearestNics(const NodeType& node);

}  // namespace twofold
