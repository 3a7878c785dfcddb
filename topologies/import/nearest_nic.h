// Which NIC each device of a node uses.
#pragma once

#include <vector>

#include "topologies/graph/cluster_topology.h"

namespace twofold {

// By device: the NIC with the fewest cables between, NVLink left aside; of several the one that fewer devices before it use,
// then the first. Empty where there are no NICs.
std::vector<int> NearestNics(const NodeType& node);

}  // namespace twofold
