// Copies of a schedule that do the same on links of their own: the groups of a mesh that lie side by side, each in
// nodes and under switches of its own.
//
// Copies are twins if, pair by pair of places, their routes cross corresponding links one after another, equally wide
// and with equal latencies, and no link corresponds to links of two copies. The graph of flows and links then consists
// of equal parts without connection. Max-min shares of each part are those of the first, and so are the classes of
// flow_classes.h: what one copy's flows need stands for all. Nothing has to be listed, solved or kept for each flow of
// each copy, only for each link. 64 ranks that send each other uneven parts in 256 groups are 4,032 flows, not a
// million.
//
// Only for policies by which a flow's paths depend on its pair alone.
#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "sim/collectives/schedule.h"
#include "sim/sharing/flow_set.h"
#include "topologies/graph/topology.h"
#include "topologies/routing.h"

namespace twofold::sim {

class Twins {
 public:
  // `endpoints`: by copy, by place. All must outlive it.
  Twins(const Topology& topology, Router& router, std::vector<std::vector<int>> endpoints, int64_t number);
  static bool Possible(RoutingPolicy policy);  // whether there can be twins

  // Whether the copies are twins in all that this schedule sends. Checks pairs that it has not seen before, and
  // remembers.
  bool Cover(const Schedule& schedule);
  // The links that correspond to the first copy's. Grows with what is covered.
  const std::shared_ptr<const LinkTwins>& links() const { return shared_; }

 private:
  bool Check(const Flow& flow);
  // Whether the links of copy `copy` along a path correspond to those of the first copy; notes them.
  bool Match(const std::vector<int>& first, const std::vector<int>& other, size_t copy);

  const Topology& topology_;
  Router& router_;
  const std::vector<std::vector<int>> endpoints_;
  const std::shared_ptr<LinkTwins> links_ = std::make_shared<LinkTwins>();
  const std::shared_ptr<const LinkTwins> shared_ = links_;
  absl::flat_hash_set<std::tuple<int, int, int>> seen_;           // from, to, rail
  absl::flat_hash_map<int, std::pair<size_t, int>> corresponds_;  // of a link: its copy, the first copy's link
  bool twins_ = true;
  std::vector<Path> first_, other_;  // scratch
};

}  // namespace twofold::sim
