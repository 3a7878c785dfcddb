// Trees: two binary ones between nodes, with chains in the nodes (tree) or beside a switch that reduces there
// (nvls_tree; nvls within one node).
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/collectives/builder.h"
#include "sim/collectives/nccl_hops.h"

namespace twofold::sim::nccl_routes {
namespace {

// The parent of node `v` of `nodes` in the first tree (-1: it is the root): 0 is above the powers of two, odd numbers
// are leaves.
int ParentInFirst(int v, int nodes) {
  if (v == 0) return -1;
  const int low = v & -v, up = (v ^ low) | (low << 1);
  return up < nodes ? up : v ^ low;
}

// The same for both trees. The second tree is the first one mirrored or, for odd numbers, shifted by one; its leaves
// are inner nodes of the first.
int Parent(int tree, int v, int nodes) {
  if (tree == 0) return ParentInFirst(v, nodes);
  const bool mirror = nodes % 2 == 0;
  const int image = mirror ? nodes - 1 - v : (v + nodes - 1) % nodes, above = ParentInFirst(image, nodes);
  return above < 0 ? -1 : mirror ? nodes - 1 - above : (above + 1) % nodes;
}

int Deepest(int tree, int nodes) {
  int deepest = 0, most = -1;
  for (int v = 0; v < nodes; ++v) {
    int depth = 0;
    for (int u = v; u >= 0; u = Parent(tree, u, nodes)) ++depth;
    if (depth > most) most = depth, deepest = v;
  }
  return deepest;
}

// A hop between nodes of both trees.
struct TreeHop {
  int from, to;  // nodes
  double share;  // of the data that goes over the trees
  bool on_way;   // on the longest path of the first tree
};

// Up and down both trees, each of which has half of the data. Hops that both trees have are one.
std::vector<TreeHop> BothTrees(int nodes) {
  std::vector<bool> on_way(At(nodes));
  for (int u = Deepest(0, nodes); u >= 0; u = Parent(0, u, nodes)) on_way[At(u)] = true;
  std::vector<TreeHop> hops;
  hops.reserve(4 * At(nodes));
  std::vector<int> first(At(nodes),
                         -1);  // by node: its hop to its parent in the first tree; the next one is the way back
  for (int v = 0; v < nodes; ++v) {
    const int up = Parent(0, v, nodes);
    if (up < 0) continue;
    first[At(v)] = static_cast<int>(hops.size());
    hops.push_back({v, up, 0.5, on_way[At(v)]}), hops.push_back({up, v, 0.5, on_way[At(v)]});
  }
  const auto hop_to = [&](int v, int up) { return first[At(v)] >= 0 && hops[At(first[At(v)])].to == up; };
  for (int v = 0; v < nodes; ++v) {
    const int up = Parent(1, v, nodes);
    if (up < 0) continue;
    const int same = hop_to(v, up) ? first[At(v)] : hop_to(up, v) ? first[At(up)] : -1;
    if (same >= 0) {
      hops[At(same)].share += 0.5, hops[At(same) + 1].share += 0.5;
    } else {
      hops.push_back({v, up, 0.5, false}), hops.push_back({up, v, 0.5, false});
    }
  }
  return hops;
}

// Both trees on every rail, each of which has such a share of the data. The latency is that of the first one.
void AddTrees(const Places& places, double share, NodeHops& hops) {
  const std::vector<TreeHop> trees = BothTrees(places.nodes);
  hops.Reserve(trees.size());
  for (const TreeHop& h : trees) hops.AddBetween(h.from, h.to, h.share * share, h.on_way ? 1 : 0, 0);
}

// Hops of a node's devices, by local number, for all rails: along each rail's way and back.
struct ChainHop {
  int from, to;
  double share;
  bool on_way;  // of the first rail
  size_t rail;  // the first that has it
};
std::vector<ChainHop> Chains(const std::vector<std::vector<int>>& ways) {
  std::vector<ChainHop> chains;
  for (size_t r = 0; r < ways.size(); ++r) {
    const auto add = [&](int from, int to) {
      const auto known =
          std::find_if(chains.begin(), chains.end(), [&](const ChainHop& h) { return h.from == from && h.to == to; });
      const double share = 1.0 / static_cast<double>(ways.size());
      if (known == chains.end())
        chains.push_back({from, to, share, r == 0, r});
      else
        known->share += share;
    };
    for (size_t k = 0; k + 1 < ways[r].size(); ++k) add(ways[r][k + 1], ways[r][k]), add(ways[r][k], ways[r][k + 1]);
  }
  return chains;
}

// Nodes that hold different numbers of ranks. On each rail of the node with the fewest, chains from each node's device
// on it. The latency is that of the chain in the node with the most ranks.
NcclRoute UnequalTrees(const Places& places, std::vector<NcclHop> storage) {
  const std::vector<std::vector<int>> nodes = RanksByNode(places);
  const auto ways = WaysThroughAll(places, nodes);
  const size_t rails = ways[0].size();
  const std::vector<TreeHop> trees = BothTrees(places.nodes);
  Hops hops(places, rails * 2 * (At(places.ranks()) + trees.size()), std::move(storage));
  const double share = 1.0 / static_cast<double>(rails);
  const auto largest = static_cast<size_t>(
      std::max_element(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); }) -
      nodes.begin());
  for (size_t r = 0; r < rails; ++r) {
    const auto rank = [&](size_t v, size_t k) { return nodes[v][At(ways[v][r][k])]; };
    for (size_t v = 0; v < nodes.size(); ++v) {
      const double crossings = r == 0 && v == largest ? 1 : 0;
      for (size_t k = 0; k + 1 < nodes[v].size(); ++k)
        hops.Add(rank(v, k + 1), rank(v, k), share, crossings), hops.Add(rank(v, k), rank(v, k + 1), share, crossings);
    }
    for (const TreeHop& h : trees)
      hops.Add(rank(At(h.from), 0), rank(At(h.to), 0), h.share * share, r == 0 && h.on_way ? 1.0 : 0.0);
  }
  return hops.Take({.device_share = 2});
}

}  // namespace

// Nodes are alike: which rails share a hop, and the trees of a rail, are found out once for all of them. The latency is
// that of the first rail's longest path, and of the way through the first node.
absl::StatusOr<NcclRoute> TreeRoute(const CollectiveShape& shape, const Places& places, std::vector<NcclHop> hops) {
  if (shape.kind != Communication::kAllReduce) return NoForm("tree", shape, "NCCL uses it only for all_reduce");
  if (places.RanksPerNode() == 0) return UnequalTrees(places, std::move(hops));
  const std::vector<std::vector<int>> ways = WaysThrough(places);
  std::vector<NodeFlows::Rail> rails;
  for (const std::vector<int>& way : ways) rails.push_back({way[0], way[0]});
  NodeHops by_node(places, std::move(rails));
  for (const ChainHop& h : Chains(ways)) by_node.AddWithin(h.from, h.to, h.rail, h.share, h.on_way ? 1 : 0, 0);
  AddTrees(places, 1.0 / static_cast<double>(ways.size()), by_node);
  return by_node.Take({.device_share = 2});
}

// ---- NVLink SHARP ----
absl::StatusOr<NcclRoute> NvlsRoute(bool tree, const CollectiveShape& shape, const Places& places) {
  const std::string_view name = tree ? "nvls_tree" : "nvls";
  const bool all_reduce = shape.kind == Communication::kAllReduce;
  const bool gathers = shape.kind == Communication::kAllGather || shape.kind == Communication::kReduceScatter;
  if (!all_reduce && (tree || !gathers)) {
    return NoForm(name, shape,
                  tree ? "it supports only all_reduce" : "it supports only all_reduce, all_gather and reduce_scatter");
  }
  if (!places.multicast_in_node)
    return NoForm(name, shape, "the nodes have no switch that reduces and multicasts (NVLink SHARP)");
  const int per_node = places.RanksPerNode();
  if (!tree && places.nodes > 1) return NoForm(name, shape, "it works within one node; use nvls_tree between nodes");
  if (tree && places.nodes == 1) return NoForm(name, shape, "it needs several nodes; use nvls within one");
  if (per_node < 2) return NoForm(name, shape, "every node must have the same number of ranks, at least two");
  std::vector<NodeFlows::Rail> rails;
  for (int l = 0; l < per_node; ++l) rails.push_back({l, l});
  NodeHops hops(places, std::move(rails));
  const double share = all_reduce ? 1 + 1.0 / per_node : 1;
  for (int l = 0; l < per_node; ++l) hops.AddWithin(l, (l + 1) % per_node, 0, share, l == 0 ? 1 : 0, 0);
  if (tree) AddTrees(places, 1.0 / per_node, hops);
  return hops.Take({.device_share = all_reduce ? 2.0 : 1.0});
}

}  // namespace twofold::sim::nccl_routes
