// Devices with a bundle of links to every other device, and with their own NICs.
//
//     gpu0 --- gpu1
//      |  \   /  |        each line `bandwidth` each way, `latency`
//      |  /   \  |
//     gpu2 --- gpu3
//
// Four A100 (Perlmutter, Polaris: 4 NVLinks per pair, 100 GB/s), four GH200 (Alps: 6 per pair, 150 GB/s), eight MI300X
// (64 GB/s).
// Cost: n(n - 1)/2 bundles; diameter 1; bisection of even n: n^2/4 * bandwidth.
#pragma once

#include "topologies/nodes/nics.h"

namespace twofold {

struct FullMeshNodeOptions {
  int devices = 4;
  BytesPerSecond bandwidth{100e9};  // of a pair, each way
  Seconds latency{1e-6};
  NodeNics nics;
};
NodeType MakeFullMeshNode(const FullMeshNodeOptions& options);

}  // namespace twofold
