// Pairs of devices joined by NVLink bridges; the pairs are joined by PCIe. These are servers of PCIe cards.
//
//     gpu0 == gpu1   gpu2 == gpu3      ==: bridge, `bandwidth` each way, `latency`
//       \      \       /      /        PCIe, `pcie_bandwidth` each way, `pcie_latency` a cable
//        [       host        ]
//          |              |            PCIe
//        [nic0]         [nic1]
//
// Cost: n/2 bridges and n PCIe cables; diameter 2; bisection of one half of the pairs against the other:
// n/2 * pcie_bandwidth.
#pragma once

#include "topologies/nodes/nics.h"

namespace twofold {

struct NvlinkPairsOptions {
  int devices = 8;  // even
  BytesPerSecond bandwidth{300e9};
  Seconds latency{1e-6};
  BytesPerSecond pcie_bandwidth{25e9};
  Seconds pcie_latency{0.5e-6};
  NodeNics nics;
};
NodeType MakeNvlinkPairsNode(const NvlinkPairsOptions& options);

}  // namespace twofold
