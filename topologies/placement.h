// Places the ranks of a job on the endpoints of a topology. Nodes are filled one after another, each in the order of
// its devices; the policies differ in the order of nodes.
//
//   linear    0, 1, 2, ...
//   by group  one node of each group in turn: node 0 of group 0, 0 of group 1, ..., 1 of group 0, ... (groups of a
//             dragonfly, pods)
//   random    shuffled (Fisher and Yates) with Philox random numbers of the seed
//   hosts     in the listed order
//
// With ranks_per_node, a node is full when it has that many.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "topologies/graph/topology.h"

namespace twofold {

struct PlacementOptions {
  enum Policy { kLinear, kByGroup, kRandom, kHosts };
  Policy policy = kLinear;
  uint64_t seed = 1;           // kRandom
  std::vector<int64_t> hosts;  // kHosts: nodes
  int ranks_per_node = 0;      // the first so many devices of each node; 0: all
};

// Returns the endpoint of each rank. Refuses hosts that the topology does not have or that are listed twice, and more
// ranks than devices. `field`, for errors, is the placement's field in the spec.
absl::StatusOr<std::vector<int>> PlaceRanks(const Topology& topology, int ranks, const PlacementOptions& options,
                                            std::string_view field = "fabric.simulated.placement");

}  // namespace twofold
