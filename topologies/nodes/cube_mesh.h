// The hybrid cube mesh of eight V100 (DGX-1V, p3.16xlarge): six NVLinks per device, some of them doubled, and a PCIe
// tree.
//
//     gpu0 === gpu3        gpu4 === gpu7
//      |  \   /  ||         |  \   /  ||      ===, ||: two links; |, the diagonals: one
//      |  /   \  ||         |  /   \  ||
//     gpu1 === gpu2        gpu5 === gpu6      between the quads: 0 == 4, 1 == 5, 2 -- 6, 3 -- 7
//
// Links: 0-1 1, 0-2 1, 0-3 2, 0-4 2, 1-2 2, 1-3 1, 1-5 2, 2-3 2, 2-6 1, 3-7 1, 4-5 1, 4-6 1, 4-7 2, 5-6 2, 5-7 1, 6-7 2
// (NVIDIA DGX-1 With Tesla V100 System Architecture, WP-08437, figure 4; `nvidia-smi topo -m` of a p3.16xlarge).
// Devices without a direct link (0-5, ...) communicate over PCIe and the sockets, as CUDA's peer access does.
// Cost: 24 NVLinks in 16 bundles; 8 devices in 4 PCIe switches on 2 sockets; bisection between the quads: 6
// links + sockets.
#pragma once

#include "topologies/nodes/nics.h"

namespace twofold {

struct CubeMeshOptions {
  BytesPerSecond link_bandwidth{25e9};  // of one NVLink, each way; a bundle of two has twice that
  Seconds latency{1e-6};
  BytesPerSecond pcie_bandwidth{12e9};
  Seconds pcie_latency{0.5e-6};
  BytesPerSecond socket_bandwidth{19.2e9};
  NodeNics nics;
};
NodeType MakeCubeMeshNode(const CubeMeshOptions& options);

}  // namespace twofold
