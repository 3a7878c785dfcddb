// Which endpoints of a topology the ranks of a job sit on. Nodes are filled one after another, each in the order of its
// devices; policies differ in the order of nodes.
//
//   linear    0, 1, 2, ...
//   by group  one of each group in turn: 0 of group 0, 0 of group 1, ..., 1 of group 0, ... (groups: of a dragonfly, pods)
//   random    shuffled (Fisher and Yates) by Philox numbers of the seed
//   hosts     as listed
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
};

// Endpoints by rank. Refuses hosts that the topology does not have or that are named twice, and more ranks than there are
// devices; `field`: the placement's in a spec, for errors.
absl::StatusOr<std::vector<int>> PlaceRanks(const Topology& topology, int ranks, const PlacementOptions& options,
                                            std::string_view field = "fabric.simulated.placement");

}  // namespace twofold
