// The NICs of a node, and where they are attached.
#pragma once

#include <vector>

#include "topologies/graph/cluster_topology.h"

namespace twofold {

struct NodeNics {
  int count = 0;
  BytesPerSecond bandwidth{25e9};  // of the cable between a NIC and its attachment point, each way
  Seconds latency{0};              // of that cable
  Medium medium = Medium::kPcie;
};

// The nearest NIC of device d is number d * count / devices, so devices are spread evenly over NICs. With more NICs
// than devices it is the first NIC attached to the device. `hang` gives for each device the vertex to which its NICs
// are cabled (itself, or its PCIe switch or socket). A NIC of several devices is cabled once to each of their vertices.
void AttachNics(const NodeNics& nics, const std::vector<int>& hang, NodeType& node);

}  // namespace twofold
