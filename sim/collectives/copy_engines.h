// A message within a node as a copy by the sender's copy engine, as Transformer Engine passes the parts of
// tp_comm_overlap (user buffers, `use_ce`). It takes no multiprocessors. Its rate is a share of the link's:
//
//   seconds = kCopySeconds + route latency + bytes / (kCopyShare * bandwidth)
//
// NVIDIA's p2pBandwidthLatencyTest copies by these engines. While both directions are busy, as in a ring, pairs of H100
// reach 740 to 753 of 900 GB/s (NVIDIA/nccl, issue 1264), and one direction alone 380 of 450. A link's packets carry
// headers; copy engines fill packets of 256 bytes, kernels of 128 (NVIDIA/nccl-tests, issue 149).
//
// Assumes: other generations of NVLink, and AMD's links, have the share of H100's. Ignores: flags that tell the
// receiver.
#pragma once

#include "sim/collectives/schedule.h"

namespace twofold::sim {

inline constexpr double kCopyShare = 0.825;
inline constexpr double kCopySeconds = 2.5e-6;  // assumed: from the stream's call to the first byte

// Within a node whose devices do not reach each other over PCIe.
bool MayCopy(const Places& places);
Schedule CopyByEngine(double bytes);  // from rank 0 to rank 1

}  // namespace twofold::sim
