// How NCCL lays a collective over nodes, devices and NICs: which device sends which part of the data to which.
//
// Every NIC has a channel of its own (its rail): data enters a node at the NIC's own device, passes all devices of the node,
// and leaves from the last one's. Where data is reduced and goes on, all steps overlap: one pipelined phase.
//
//   ring       rotated orders: rail r's ring begins in every node at r's device. In one node of three or four devices all
//              cyclic orders share the data, which loads a full mesh of links evenly (a switch does not care). Where devices are
//              joined unlike (DGX-1V), rings go over cables of NVLink alone, as many as these bear, both ways, each with data by
//              what it bears; between nodes the way through a node is one over such cables, to a device of the same NIC if there is one
//   tree       in a node the devices are a chain towards the rail's device, in the order of its ring; between nodes two binary
//              trees, each for half of the data, in which no node is inside both (Sanders, Speck and Träff 2009; Jeaugey 2019)
//   nvls       the switch reduces what it reads from all devices and writes it to all: a device sends its whole tensor and
//              receives its part, then sends that and receives the whole: (1 + 1/n) tensors each way
//   nvls_tree  nvls in the nodes, two binary trees between the devices of a rail, each with its part
//   direct     every pair at once, nodes in rotation
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim {

struct NcclHop {
  int from, to;
  bool between;          // nodes
  double share;          // of the collective's bytes that pass it
  double crossings = 0;  // as Flow's
};
struct NcclRoute {
  std::vector<std::vector<NcclHop>> phases;  // after one another; most have one
  double device_share = 1;  // of the bytes, what a device sends in all: by which its channels are limited
  double step_share = 0;    // ring: of the bytes, what passes a NIC in one step
  int node_peers = 0, network_peers = 0;  // direct: to how many a device sends
};

// Refuses what NCCL has no such algorithm for, or the places do not allow.
absl::StatusOr<NcclRoute> MakeNcclRoute(NcclAlgorithm algorithm, const CollectiveShape& shape, const Places& places);

}  // namespace twofold::sim
