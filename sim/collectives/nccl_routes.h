// How NCCL routes a collective over nodes, devices and NICs: which device sends which part of the data to which.
//
// Every NIC has its own channel (its rail): data enters a node at the NIC's own device, passes all devices of the node,
// and leaves from the last one. If data is reduced and forwarded, all steps overlap: one pipelined phase.
//
//   ring       rotated orders: rail r's ring begins in every node at r's device. In one node of three or four devices
//              all cyclic orders share the data, which loads a full mesh of links evenly (a switch is indifferent). In
//              nodes with non-uniform links (DGX-1V), rings use only direct NVLink cables, as many rings as these can
//              carry, in both directions, each with data in proportion to its bandwidth. Between nodes, the path
//              through a node also uses such cables, and ends at a device of the same NIC if possible
//              if all pairs of a node have cables alike (MI300X), rings in all orders share the data, and the path
//              through a node zigzags
//   tree       in a node the devices form a chain towards the rail's device, in the order of its ring; between nodes
//              two binary trees, each for half of the data; no node is an inner node of both (Sanders, Speck and
//              Träff 2009; Jeaugey 2019)
//   nvls       the switch reduces what it reads from all devices and multicasts it to all: a device sends its whole
//              tensor and receives its part, then sends that and receives the whole: (1 + 1/n) tensors each way
//   nvls_tree  nvls in the nodes, two binary trees between the devices of a rail, each device with its part
//              of all_gather and reduce_scatter every device stores its part to all, or reads it reduced: one tensor
//   pat        all_gather and reduce_scatter between nodes of one rank each: parts over distances 1, 2, 4, ... (Jeaugey
//              2025, "PAT", arXiv 2506.20252)
//   direct     every pair in the node at once, then messages to 16 other nodes at a time; of all_reduce in one
//              node with a cable for every pair: parts to their device, which reduces them, and back
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/node_flows.h"
#include "sim/collectives/pair_flows.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim {

struct NcclHop {
  int from, to;
  bool between;          // between nodes
  double share;          // of the collective's bytes that pass this hop
  double crossings = 0;  // as in Flow
};
struct NcclRoute {
  std::vector<std::vector<NcclHop>> phases;  // one after another; usually there is only one
  double device_share = 1;                   // share of the bytes that a device sends in total; limits its channels
  double step_share = 0;                     // ring: share of the bytes that passes a NIC in one step
  int node_peers = 0, network_peers = 0;     // direct: how many peers a device sends to
  // Of equal nodes whose hops are of few kinds: these instead of phases[0], which is then empty and the only one.
  std::shared_ptr<const NodeFlows> by_node = nullptr;
  std::vector<NcclHop> kinds = {};  // by NodeFlows' kinds: a hop of each
  // Of an all-to-all: by phase, instead of its hops, of which there are too many.
  struct Pairs {
    std::shared_ptr<const PairFlows> flows;
    std::vector<NcclHop> kinds;  // by PairFlows' kinds: a hop of each
  };
  std::vector<Pairs> pairs = {};
};
constexpr size_t kMostNcclKinds = 64;

// The same route, with all of its hops in `phases`.
NcclRoute Listed(NcclRoute route);

// Refuses collectives for which NCCL has no such algorithm, or that the places do not allow.
// `storage`: of hops that nobody needs any more. A route of many ranks then needs no new memory.
absl::StatusOr<NcclRoute> MakeNcclRoute(NcclAlgorithm algorithm, const CollectiveShape& shape, const Places& places,
                                        std::vector<NcclHop> storage = {});

}  // namespace twofold::sim
