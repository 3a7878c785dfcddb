// Devices on NVSwitches: each has one bundle of NVLinks to a switch that never limits, and its own NICs.
//
//     [nic0] [nic1] [nic2]
//       |      |      |        PCIe
//     gpu0   gpu1   gpu2
//        \     |     /         `bandwidth` each way, `latency` / 2
//          [nvswitch]
//
// DGX-2 (16 x V100, 150 GB/s), DGX A100 (8, 300), DGX H100 (8, 450), DGX B200 (8, 900), GB200 NVL72 (72, 900). The
// switch chips of a node are one vertex, because each device spreads its NVLinks over all of them and no chip is a
// bottleneck.
// Cost: 1 switch, n bundles; diameter 2; bisection n/2 * bandwidth.
#pragma once

#include "topologies/nodes/nics.h"

namespace twofold {

struct NvSwitchNodeOptions {
  int devices = 8;
  BytesPerSecond bandwidth{300e9};
  Seconds latency{1e-6};   // device to device
  bool multicast = false;  // NVLink SHARP: third-generation switches (H100) and later
  NodeNics nics;
};
NodeType MakeNvSwitchNode(const NvSwitchNodeOptions& options);

}  // namespace twofold
