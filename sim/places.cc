#include "sim/places.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace twofold::sim {
namespace {

struct Way {
  double alpha, bandwidth;
};

// Ranks that occupy all endpoints of a grid fill it, in any order.
void SetGrid(const Topology& topology, std::span<const int> endpoints, Places& p) {
  const std::vector<int> grid = topology.grid();
  if (grid.empty() || static_cast<int>(endpoints.size()) != topology.endpoints()) return;
  std::vector<int> rank(endpoints.size(), -1);
  for (size_t r = 0; r < endpoints.size(); ++r) rank[static_cast<size_t>(endpoints[r])] = static_cast<int>(r);
  if (std::find(rank.begin(), rank.end(), -1) != rank.end()) return;
  p.grid = grid;
  for (int k = 0; k < topology.endpoints(); ++k) p.at.push_back(rank[static_cast<size_t>(topology.AtGrid(k))]);
}

Way WayBetween(const Topology& topology, int from, int to) {
  const Pair pair{from, to};
  std::vector<int> route;
  topology.Route(pair, topology.DefaultRoute(pair), route);
  double narrowest = 1e12;
  for (int link : route) narrowest = std::min(narrowest, topology.RatesOf(link).bandwidth.value());
  return {topology.UsualLatency(pair).value(), narrowest};
}

bool IsCable(const Topology& topology, int from, int to) {
  const Pair pair{from, to};
  std::vector<int> route;
  topology.Route(pair, topology.DefaultRoute(pair), route);
  return route.size() == 1 && topology.RatesOf(route[0]).medium == Medium::kNvlink;
}

// The joints of the first node's ranks, if all nodes have their ranks in the same places and pairs have different
// links.
void SetJoints(const Topology& topology, std::span<const int> endpoints, Places& p) {
  const int each = p.RanksPerNode();
  if (each < 2 || each > kMostJoined) return;
  if (topology.symmetric()) {
    p.pair_cables = p.nodes == 1 && IsCable(topology, endpoints[0], endpoints[1]);
    return;
  }
  std::vector<std::vector<int>> nodes(static_cast<size_t>(p.nodes));
  for (size_t r = 0; r < endpoints.size(); ++r) nodes[static_cast<size_t>(p.node[r])].push_back(endpoints[r]);
  for (const std::vector<int>& node : nodes) {
    for (size_t i = 0; i < node.size(); ++i) {
      if (node[i] - node[0] != nodes[0][i] - nodes[0][0]) return;
    }
  }
  std::vector<std::vector<Places::Joint>> joints(nodes[0].size(), std::vector<Places::Joint>(nodes[0].size()));
  bool alike = true;
  for (size_t a = 0; a < joints.size(); ++a) {
    for (size_t b = 0; b < joints.size(); ++b) {
      if (a == b) continue;
      const int from = nodes[0][a], to = nodes[0][b];
      joints[a][b] = {WayBetween(topology, from, to).bandwidth, IsCable(topology, from, to)};
      alike = alike && joints[a][b] == joints[0][1];
    }
  }
  if (!alike)
    p.joints = std::move(joints);
  else
    p.pair_cables = joints[0][1].direct;
}

bool OverPcie(const Topology& topology, int from, int to) {
  const Pair pair{from, to};
  std::vector<int> route;
  topology.Route(pair, topology.DefaultRoute(pair), route);
  return std::any_of(route.begin(), route.end(),
                     [&](int link) { return topology.RatesOf(link).medium == Medium::kPcie; });
}

}  // namespace

Places PlacesOf(const Topology& topology, std::span<const int> endpoints) {
  Places p;
  std::vector<int> members;  // by node of the group: number of ranks
  std::vector<int> first;    // by node: its first endpoint
  std::optional<Way> inside;
  absl::flat_hash_map<int, int> numbers;
  for (int e : endpoints) {
    const auto [it, fresh] = numbers.try_emplace(topology.NodeOf(e), static_cast<int>(numbers.size()));
    const auto node = static_cast<size_t>(it->second);
    if (fresh) {
      members.push_back(0), first.push_back(e);
    } else if (!inside) {
      inside = WayBetween(topology, first[node], e);
      p.pcie_in_node = !topology.symmetric() && OverPcie(topology, first[node], e);
    }
    p.node.push_back(it->second);
    p.local.push_back(members[node]++);
    p.rail.push_back(topology.RailOf(e));
  }
  p.nodes = static_cast<int>(members.size());
  p.rails = topology.rails();
  p.shared_memory = topology.kind() == "shared_memory_host";
  p.multicast_in_node = topology.multicast_in_node();
  p.reduction_in_network = topology.reduction_in_network();
  p.one_link = topology.symmetric() || p.nodes == 1 || p.nodes == p.ranks();
  Way between = {topology.alpha().value(), topology.bandwidth().value()};
  if (!topology.symmetric() && p.nodes > 1) {
    between = {};
    for (int other : {endpoints[endpoints.size() / 2], endpoints.back()}) {
      if (topology.NodeOf(other) == topology.NodeOf(endpoints[0])) continue;
      const Way way = WayBetween(topology, endpoints[0], other);
      if (between.bandwidth == 0 || way.alpha > between.alpha) between = way;
    }
    if (between.bandwidth == 0) {  // ranks are not sorted by node: uses any rank of another node
      for (int other : first) {
        if (topology.NodeOf(other) != topology.NodeOf(endpoints[0]))
          between = WayBetween(topology, endpoints[0], other);
      }
    }
  }
  if (!inside || topology.symmetric()) inside = between;
  SetGrid(topology, endpoints, p);
  SetJoints(topology, endpoints, p);
  if (p.nodes == 1) between = *inside;
  p.alpha = between.alpha, p.bandwidth = between.bandwidth;
  p.node_alpha = inside->alpha, p.node_bandwidth = inside->bandwidth;
  return p;
}

}  // namespace twofold::sim
