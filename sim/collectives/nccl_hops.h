// What the files that build NCCL's routes (nccl_routes.h) share: they collect hops in the same ways, and rings and
// trees take the same ways through a node. For these files alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/collectives/nccl_routes.h"
#include "sim/collectives/node_flows.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim::nccl_routes {

inline size_t At(int i) { return static_cast<size_t>(i); }

// Moves the hops: there may be half a million.
inline NcclRoute OnePhase(std::vector<NcclHop> hops, NcclRoute route) {
  route.phases.push_back(std::move(hops));
  return route;
}

// Collects hops and merges those between the same two ranks. A rank sends to few others.
class Hops {
 public:
  // `most`: so many are expected at most. `storage`: for them.
  Hops(const Places& places, size_t most, std::vector<NcclHop> storage)
      : places_(places), hops_(std::move(storage)), last_(At(places.ranks()), -1) {
    hops_.clear(), hops_.reserve(most), before_.reserve(most);
  }
  void Add(int from, int to, double share, double crossings) {
    int h = last_[At(from)];
    while (h >= 0 && hops_[At(h)].to != to) h = before_[At(h)];
    if (h < 0) {
      h = static_cast<int>(hops_.size());
      hops_.push_back({from, to, places_.node[At(from)] != places_.node[At(to)], 0, 0});
      before_.push_back(std::exchange(last_[At(from)], h));
    }
    hops_[At(h)].share += share, hops_[At(h)].crossings += crossings;
  }
  // All of them as the only phase of a route.
  NcclRoute Take(NcclRoute route) { return OnePhase(std::move(hops_), std::move(route)); }

 private:
  const Places& places_;
  std::vector<NcclHop> hops_;
  std::vector<int> last_, before_;  // by rank: its last hop; by hop: the same rank's one before it; -1: none
};

// Collects the hops of equal nodes, by kind.
class NodeHops {
 public:
  NodeHops(const Places& places, std::vector<NodeFlows::Rail> rails, const NodeFlows::Root& root = {},
           bool in_turn = false)
      : flows_(std::make_shared<NodeFlows>()) {
    flows_->each = places.RanksPerNode(), flows_->rails = std::move(rails);
    flows_->root = root, flows_->in_turn = in_turn;
    flows_->ranks.resize(At(places.ranks()));
    for (int r = 0; r < places.ranks(); ++r)
      flows_->ranks[At(places.node[At(r)] * flows_->each + places.local[At(r)])] = r;
  }
  // Crossings: in the first node, in each other.
  void AddWithin(int from, int to, size_t rail, double share, double first, double others) {
    const int kind = KindOf(false, share, first);
    flows_->within.push_back({from, to, rail, kind, KindOf(false, share, others)});
  }
  // Crossings: on the first rail, on each other.
  void AddBetween(int from, int to, double share, double first, double others) {
    const int kind = KindOf(true, share, first);
    flows_->between.push_back({from, to, kind, KindOf(true, share, others)});
  }
  void Reserve(size_t between) { flows_->between.reserve(between); }
  NcclRoute Take(NcclRoute route) {
    route.phases.emplace_back();
    route.by_node = std::move(flows_), route.kinds = std::move(kinds_);
    return route.kinds.size() <= kMostNcclKinds ? route : Listed(std::move(route));
  }

 private:
  int KindOf(bool between, double share, double crossings) {
    const auto alike = [&](const NcclHop& k) {
      return k.between == between && k.share == share && k.crossings == crossings;
    };
    const auto known = std::find_if(kinds_.begin(), kinds_.end(), alike);
    const auto number = static_cast<int>(known - kinds_.begin());
    if (known == kinds_.end()) kinds_.push_back({0, 0, between, share, crossings});
    return number;
  }

  const std::shared_ptr<NodeFlows> flows_;
  std::vector<NcclHop> kinds_;
};

// For each ring between nodes, the devices of a node in its order, by local number. Nodes have equally many ranks.
std::vector<std::vector<int>> WaysThrough(const Places& places);
// The same for each node; nodes may differ. There are as many rings as the node with the fewest rails has: ranks agree
// on the least number of channels (NCCL, src/init.cc, initTransportsRank). `nodes`: RanksByNode.
std::vector<std::vector<std::vector<int>>> WaysThroughAll(const Places& places,
                                                          const std::vector<std::vector<int>>& nodes);

// The routes, by algorithm. `storage`, `hops`: as in MakeNcclRoute.
absl::StatusOr<NcclRoute> RingRoute(const CollectiveShape& shape, const Places& places, std::vector<NcclHop> storage);
absl::StatusOr<NcclRoute> TreeRoute(const CollectiveShape& shape, const Places& places, std::vector<NcclHop> hops);
// `tree`: nvls_tree.
absl::StatusOr<NcclRoute> NvlsRoute(bool tree, const CollectiveShape& shape, const Places& places);
absl::StatusOr<NcclRoute> PatRoute(const CollectiveShape& shape, const Places& places, std::vector<NcclHop> storage);
absl::StatusOr<NcclRoute> DirectRoute(const CollectiveShape& shape, const Places& places);

}  // namespace twofold::sim::nccl_routes
