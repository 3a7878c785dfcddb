// Devices below PCIe switches below sockets; NICs below the switches.
//
//     [socket0] ------ [socket1]           `socket_bandwidth` each way between any two
//      /      \         /     \            PCIe: `pcie_bandwidth` each way, `pcie_latency` a cable
//    [plx0] [plx1]   [plx2] [plx3]         `switches_per_socket`
//    /  |  \                               `devices_per_switch` devices, and NICs
// gpu0 gpu1 [nic0]
//
// Devices fill switches in order, switches sockets; the last of each may have fewer. NVLink, where there is any, is added by
// the builders that use this one (cube mesh).
// Cost: s = ceil(n / devices_per_switch) switches and n + s PCIe cables; diameter 5 over two sockets, 4 over one, 2 below a
// switch; bisection of two sockets: socket_bandwidth.
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
