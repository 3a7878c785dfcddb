// Devices below PCIe switches below sockets; NICs below the switches.
//
//     [socket0] ------ [socket1]           `socket_bandwidth` each way between any two
//      /      \         /     \            PCIe: `pcie_bandwidth` each way, `pcie_latency` a cable
//    [plx0] [plx1]   [plx2] [plx3]         `switches_per_socket`
//    /  |  \                               `devices_per_switch` devices, and NICs
// gpu0 gpu1 [nic0]
//
// Devices fill switches in order, and switches fill sockets; the last switch and the last socket may have fewer.
// Builders on top of this one add NVLink (cube mesh).
// Cost: s = ceil(n / devices_per_switch) switches and n + s PCIe cables; diameter 5 across two sockets, 4 within one, 2
// below one switch; bisection between two sockets: socket_bandwidth.
#pragma once

#include "topologies/nodes/nics.h"

namespace twofold {

struct PcieTreeOptions {
  int devices = 4;
  int devices_per_switch = 2;
  int switches_per_socket = 2;
  BytesPerSecond pcie_bandwidth{25e9};
  Seconds pcie_latency{0.5e-6};
  BytesPerSecond socket_bandwidth{20e9};
  NodeNics nics;
};
NodeType MakePcieTreeNode(const PcieTreeOptions& options);

}  // namespace twofold
