// One device, with its NICs.
//
//     [device]--[nic0]
//          \----[nic1]      `nics.count` of them; none: the device is the network's port
//
// Cost: no switch, one cable per NIC.
#pragma once

#include "topologies/nodes/nics.h"

namespace twofold {

NodeType MakeSingleNode(const NodeNics& nics);

}  // namespace twofold
