// What changed from version to version of NCCL: the constants of its own estimates (nccl_tuner.h), and what a call
// costs in old versions alone.
//
// Source: github.com/NVIDIA/nccl, src/graph/tuning.cc at v2.8.4-1, v2.10.3-1, v2.12.12-1, v2.14.3-1 and 5067397c
// (baseLat, hwLat, llMaxBws, ll128MaxBwPerCh, perChMaxTreeBws, treeCorrectionFactor, ncclTopoGetAlgoTime). From 2.18 on
// all versions count as the last one: up to 2.18.3 a ring counts as in 2.14; 2.19 to 2.22 expect 28 us of a hop of a
// tree in Simple, where the others expect 4 and 14, and up to 2.20 they expect less of LL.
//
// Up to 2.9 each channel but the first reads its work from the host's memory, 512 bytes in words of 4
// (src/collectives/device/common.h at v2.8.4-1: load_coll, load_parallel), and these reads wait for each other. What
// that costs is calibrated on V100 (aistabci/abci2.0benchmark at f0aa27f, allreduce and bcast/intra_vnode, NCCL 2.8.4):
// 16 to 128 KiB take 1, 2, 4 and 8 channels of 16 KiB each, all_reduce 17.1, 20.2, 22.3 and 26.1 us, broadcast 11.3,
// 14.4, 16.6 and 20.4. Later versions read 8 or 16 bytes at a time, and what is left is in their calls' base.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace twofold::sim {

struct NcclVersion {
  int minor;  // of 2.x: the first that is so
  // Microseconds that NCCL expects: ring, tree; by protocol
  double base[2][3], nvlink[2][3], pcie[2][3], network[2][3];
  // Shares of its bandwidth that a ring is expected to reach in LL: in a node where devices only copy, else
  double ring_ll_copies, ring_ll;
  double ring_ll128_alone;  // in LL128 with one rank on each node (0.92 with several, in all versions)
  bool ring_counts_nodes;   // all_reduce around n nodes takes 2 n hops between them; else 2 (n - 1)
  double node_ll_times;     // hops within a node in LL take so many times longer if there are several nodes
  double ampere_most;       // GB/s of all of an Ampere's channels
  double tree_between;      // share of a tree in LL128 between nodes
  double plateau;           // a ring in Simple between nodes takes so many times its latency (Ampere and newer)
  bool plateau_by_ranks;    // from 4 KiB a rank on; else from 64 bytes a rank and channel on
  bool posts;               // knows that the host posts messages
  bool nvls;
  // GB/s of a channel: in LL128 of broadcast, reduce, all_gather, reduce_scatter, all_reduce; of Ampere's trees by
  // nodes (one, two, more). Zero: by generation
  std::array<double, 5> ll128;
  std::array<double, 3> ampere_tree;
  // Measured: seconds before all channels have their work, if there are several, and for each but the first
  double several_channels, each_channel;
};

// The newest if `name` is empty. Nothing: no version, or one before 2.8. `name` is as "2.8" or "2.8.4".
const NcclVersion* NcclVersionNamed(std::string_view name);

}  // namespace twofold::sim
