// NICs of a node, and where they hang.
#pragma once

#include <vector>

#include "topologies/graph/cluster_topology.h"

namespace twofold {

struct NodeNics {
  int count = 0;
  BytesPerSecond bandwidth{25e9};  // of the cable between a NIC and where it hangs, each way
  Seconds latency{0};              // of that cable
  Medium medium = Medium::kPcie;
};

// Device d's nearest NIC is number d * count / devices: as many devices to each NIC as can be; where there are more NICs than
// devices, the first of those that hang at the device. `hang`: for each device the vertex that its NICs are cabled to (itself,
// or its PCIe switch or socket); a NIC of several devices is cabled to each of their vertices, once.
void AttachNics(const NodeNics& nics, const std::vector<int>& hang, NodeType& node);

}  // namespace twofold
