// Devices joined according to a list, each attached to the host of its socket. For nodes that no regular builder
// describes.
//
//     [socket0]------[socket1]        `socket_bandwidth` each way between any two
//      /  |  \        /  |  \         `host_bandwidth` each way, `host_latency` (NVLink, Infinity Fabric or PCIe)
//     0 = 1 = 2      3 = 4 = 5        ==: `cables`, `latency` each
//
// Summit: two groups of three V100, fully connected within each. Frontier: eight GCDs of four MI250X. Pairs without a
// cable communicate through their sockets. NICs are attached evenly to the sockets, or to the named devices.
// Cost: no switch; cables as listed and n to the sockets; diameter at most 3.
#pragma once

#include <vector>

#include "topologies/nodes/nics.h"

namespace twofold {

struct WiredNodeOptions {
  struct Cable {
    int a, b;  // devices
    BytesPerSecond bandwidth;
  };
  int devices = 6;
  std::vector<Cable> cables;
  Seconds latency{1e-6};
  int devices_per_socket = 3;
  BytesPerSecond host_bandwidth{50e9};
  Seconds host_latency{0.5e-6};
  BytesPerSecond socket_bandwidth{32e9};
  NodeNics nics;
  std::vector<int> nic_at;  // the device of each NIC; empty: NICs are attached to the sockets
};
NodeType MakeWiredNode(const WiredNodeOptions& options);

}  // namespace twofold
