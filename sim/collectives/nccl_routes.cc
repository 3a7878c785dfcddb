#include "sim/collectives/nccl_routes.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "sim/collectives/builder.h"

namespace twofold::sim {
namespace {

size_t At(int i) { return static_cast<size_t>(i); }

// The device at which each rail enters a node, by its local number; a single one if nodes differ.
// `node`: the ranks of the first one.
std::vector<int> RailDevices(const Places& places, const std::vector<int>& node) {
  std::vector<int> devices, seen;
  for (size_t l = 0; l < node.size(); ++l) {
    const int rail = places.rail[At(node[l])];
    if (std::find(seen.begin(), seen.end(), rail) != seen.end()) continue;
    seen.push_back(rail), devices.push_back(static_cast<int>(l));
  }
  return places.RanksPerNode() > 0 ? devices : std::vector<int>{0};
}

// Moves the hops: there may be half a million.
NcclRoute OnePhase(std::vector<NcclHop> hops, NcclRoute route) {
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

// ---- Rings ----
std::vector<std::vector<int>> CyclicOrders(int n) {
  std::vector<int> order(At(n));
  std::iota(order.begin(), order.end(), 0);
  if (n < 3 || n > 4) return {order};
  std::vector<std::vector<int>> orders;
  do orders.push_back(order);
  while (std::next_permutation(order.begin() + 1, order.end()));
  return orders;
}

struct Ring {
  std::vector<int> order;
  double share;  // of the data
};

// Extends a path over direct cables of at least `width` through all devices of a node; `ends` checks its last device.
// Takes the first such path, in the order of device numbers after the previous one.
bool GoOn(const std::vector<std::vector<Places::Joint>>& joints, double width, const std::function<bool(int)>& ends,
          std::vector<int>& way) {
  const int n = static_cast<int>(joints.size());
  if (static_cast<int>(way.size()) == n) return ends(way.back());
  for (int k = 1; k < n; ++k) {
    const int next = (way.back() + k) % n;
    const Places::Joint& joint = joints[At(way.back())][At(next)];
    if (!joint.direct || joint.bandwidth < width || std::find(way.begin(), way.end(), next) != way.end()) continue;
    way.push_back(next);
    if (GoOn(joints, width, ends, way)) return true;
    way.pop_back();
  }
  return false;
}

// The widest such path; empty if there is none.
std::vector<int> WidestWay(const std::vector<std::vector<Places::Joint>>& joints, int first,
                           const std::function<bool(int)>& ends) {
  std::vector<double> widths;
  for (const auto& row : joints) {
    for (const Places::Joint& joint : row) {
      if (joint.direct && joint.bandwidth > 0) widths.push_back(joint.bandwidth);
    }
  }
  std::sort(widths.rbegin(), widths.rend());
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  for (const double width : widths) {
    std::vector<int> way = {first};
    if (GoOn(joints, width, ends, way)) return way;
  }
  return {};
}

// Rings around one node over its cables: the widest, then the widest of the remaining capacity, each in both
// directions.
std::vector<Ring> RingsOverCables(const Places& places) {
  auto left = places.joints;
  std::vector<Ring> rings;
  double all = 0;
  while (true) {
    std::vector<int> ring;
    double width = 0;
    // The cable that closes a ring must be as wide as its others: takes the widest ring over all closing cables.
    for (int last = 1; last < places.ranks(); ++last) {
      const Places::Joint& closing = left[At(last)][0];
      if (!closing.direct || closing.bandwidth <= width) continue;
      const std::vector<int> way = WidestWay(left, 0, [&](int end) { return end == last; });
      if (way.empty()) continue;
      double least = closing.bandwidth;
      for (size_t k = 0; k + 1 < way.size(); ++k) least = std::min(least, left[At(way[k])][At(way[k + 1])].bandwidth);
      if (least > width) width = least, ring = way;
    }
    if (ring.empty()) break;
    for (size_t k = 0; k < ring.size(); ++k) {
      const size_t a = At(ring[k]), b = At(ring[(k + 1) % ring.size()]);
      for (Places::Joint* joint : {&left[a][b], &left[b][a]}) joint->bandwidth -= width;
    }
    std::vector<int> back(ring.rbegin(), ring.rend());
    rings.push_back({std::move(ring), width}), rings.push_back({std::move(back), width});
    all += 2 * width;
  }
  for (Ring& ring : rings) ring.share /= all;
  return rings;
}

// The devices of a node, by local number, in the order in which data of the rail that enters at `first` passes them.
std::vector<int> WayThrough(const Places& places, const std::vector<int>& node, int first) {
  std::vector<int> way;
  // Zigzags from every device take each of the cables between pairs once (Walecki's paths; Alspach 2008).
  if (places.pair_cables) {
    const int n = static_cast<int>(node.size());
    for (int k = 0; k < n; ++k) way.push_back((first + (k % 2 == 1 ? (k + 1) / 2 : n - k / 2)) % n);
    return way;
  }
  if (!places.joints.empty()) {
    const auto rail = [&](int local) { return places.rail[At(node[At(local)])]; };
    way = WidestWay(places.joints, first, [&](int last) { return rail(last) == rail(first); });
    if (way.empty()) way = WidestWay(places.joints, first, [](int) { return true; });
  }
  for (size_t k = 0; way.size() < node.size(); ++k) way.push_back(static_cast<int>((At(first) + k) % node.size()));
  return way;
}

// For each ring between nodes, the devices of a node in its order, by local number.
std::vector<std::vector<int>> WaysThrough(const Places& places) {
  std::vector<int> node;  // the first one's ranks
  for (int r = 0; r < places.ranks(); ++r)
    if (places.node[At(r)] == 0) node.push_back(r);
  std::vector<std::vector<int>> ways;
  for (int first : RailDevices(places, node)) ways.push_back(WayThrough(places, node, first));
  return ways;
}

std::vector<Ring> Rings(const Places& places) {
  std::vector<Ring> rings;
  if (places.nodes == 1) {
    if (!places.joints.empty()) rings = RingsOverCables(places);
    if (!rings.empty()) return rings;
    for (std::vector<int>& order : CyclicOrders(places.ranks())) rings.push_back({std::move(order), 1});
  } else {
    const auto nodes = RanksByNode(places);
    const bool cables = !places.joints.empty() || places.pair_cables;
    for (int first : RailDevices(places, nodes[0])) {
      Ring& ring = rings.emplace_back(Ring{{}, 1});
      const std::vector<int> way = cables ? WayThrough(places, nodes[0], first) : std::vector<int>();
      for (const std::vector<int>& node : nodes) {
        for (size_t k = 0; k < node.size(); ++k)
          ring.order.push_back(node[way.empty() ? (At(first) + k) % node.size() : At(way[k])]);
      }
    }
  }
  for (Ring& ring : rings) ring.share /= static_cast<double>(rings.size());
  return rings;
}

// Rings between nodes of equally many ranks. In every node they take the same ways: which of them share a hop is found
// out once, for all nodes.
struct RingHop {
  int near, far;  // local numbers
  bool between;   // far: in the next node
  double share = 0, crossings = 0;
  size_t ring;  // the first that has it
};
// `times`: how often each byte passes a hop.
std::vector<RingHop> RingHops(const std::vector<std::vector<int>>& ways, double times) {
  std::vector<RingHop> pattern;
  for (size_t r = 0; r < ways.size(); ++r) {
    const std::vector<int>& way = ways[r];
    for (size_t k = 0; k < way.size(); ++k) {
      const bool between = k + 1 == way.size();
      const int near = way[k], far = between ? way[0] : way[k + 1];
      auto known = std::find_if(pattern.begin(), pattern.end(), [&](const RingHop& h) {
        return h.near == near && h.far == far && h.between == between;
      });
      if (known == pattern.end()) known = pattern.insert(known, {near, far, between, 0, 0, r});
      known->share += times * (1.0 / static_cast<double>(ways.size())), known->crossings += r == 0 ? times : 0;
    }
  }
  return pattern;
}

// Chains leave out the hops to their root; those towards it go backwards.
NcclRoute RingsByNode(const CollectiveShape& shape, const Places& places, double times) {
  const bool to_root = shape.kind == Communication::kReduce, chain = to_root || shape.kind == Communication::kBroadcast;
  const std::vector<std::vector<int>> ways = WaysThrough(places);
  const std::vector<RingHop> pattern = RingHops(ways, times);
  std::vector<NodeFlows::Rail> rails;
  for (const std::vector<int>& way : ways)
    rails.push_back(to_root ? NodeFlows::Rail{way[0], way.back()} : NodeFlows::Rail{way.back(), way[0]});
  NodeFlows::Root root;
  if (chain) root = {places.node[At(shape.root)], places.local[At(shape.root)], !to_root};
  NodeHops hops(places, std::move(rails), root, true);
  for (const RingHop& h : pattern) {
    if (!h.between)
      hops.AddWithin(to_root ? h.far : h.near, to_root ? h.near : h.far, h.ring, h.share, h.crossings, h.crossings);
  }
  // Each ring has one hop to the next node.
  const auto out = std::find_if(pattern.begin(), pattern.end(), [](const RingHop& h) { return h.between; });
  hops.Reserve(At(places.nodes));
  for (int v = 0; v < places.nodes; ++v) {
    const int next = (v + 1) % places.nodes;
    hops.AddBetween(to_root ? next : v, to_root ? v : next, out->share, out->crossings, 0);
  }
  const double part = 1.0 / shape.ranks / static_cast<double>(ways.size());
  return hops.Take({.device_share = times, .step_share = chain ? 0 : part});
}

// Rings in all orders of a node load every cable between two devices alike: RCCL's rings on MI300X (src/graph/
// rome_models.cc). The latency is that of one of them.
NcclRoute RingsOverPairs(const CollectiveShape& shape, const Places& places, int steps, std::vector<NcclHop> storage) {
  const int n = shape.ranks;
  const bool to_root = shape.kind == Communication::kReduce, chain = to_root || shape.kind == Communication::kBroadcast;
  const double times = chain ? 1 : static_cast<double>(steps) / n;
  Hops hops(places, At(n) * At(n), std::move(storage));
  for (int i = 0; i < n; ++i) {
    for (int d = 1; d < n; ++d) {
      const int near = ((chain ? shape.root : 0) + i) % n, far = (near + d) % n;
      if (chain && far == shape.root) continue;
      hops.Add(to_root ? far : near, to_root ? near : far, times / (n - 1), d == 1 ? times : 0);
    }
  }
  return hops.Take({.device_share = chain ? 1 : times, .step_share = chain ? 0 : 1.0 / n / std::max(1, n - 1)});
}

absl::StatusOr<NcclRoute> RingRoute(const CollectiveShape& shape, const Places& places, std::vector<NcclHop> storage) {
  const int n = shape.ranks;
  const bool to_root = shape.kind == Communication::kReduce, chain = to_root || shape.kind == Communication::kBroadcast;
  const int steps = shape.kind == Communication::kAllReduce ? 2 * (n - 1) : n - 1;
  if (places.nodes == 1 && places.pair_cables && n > 4) return RingsOverPairs(shape, places, steps, std::move(storage));
  const double times = chain ? 1 : static_cast<double>(steps) / n;
  if (places.nodes > 1 && places.RanksPerNode() > 0) return RingsByNode(shape, places, times);
  const auto rings = Rings(places);
  Hops hops(places, rings.size() * At(n), std::move(storage));
  for (size_t r = 0; r < rings.size(); ++r) {
    const std::vector<int>& ring = rings[r].order;
    const size_t root =
        chain ? At(static_cast<int>(std::find(ring.begin(), ring.end(), shape.root) - ring.begin())) : 0;
    for (size_t k = 0; k < ring.size(); ++k) {
      const int near = ring[(root + k) % ring.size()], far = ring[(root + k + 1) % ring.size()];
      if (chain && far == shape.root) continue;
      hops.Add(to_root ? far : near, to_root ? near : far, times * rings[r].share, r == 0 ? times : 0);
    }
  }
  return hops.Take({.device_share = times, .step_share = chain ? 0 : 1.0 / n / static_cast<double>(rings.size())});
}

// ---- Trees ----
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

// Nodes that hold different numbers of ranks have one rail: chains from each node's first rank. `way`: of the first
// node.
NcclRoute UnequalTrees(const std::vector<std::vector<int>>& nodes, const std::vector<int>& way,
                       std::vector<NcclHop> hops) {
  for (size_t v = 0; v < nodes.size(); ++v) {
    const std::vector<int>& node = nodes[v];
    const double crossings = v == 0 ? 1 : 0;
    const auto rank = [&](size_t k) { return node[node.size() == way.size() ? At(way[k]) : k]; };
    for (size_t k = 0; k + 1 < node.size(); ++k) {
      hops.push_back({rank(k + 1), rank(k), false, 1, crossings});
      hops.push_back({rank(k), rank(k + 1), false, 1, crossings});
    }
  }
  for (const TreeHop& h : BothTrees(static_cast<int>(nodes.size())))
    hops.push_back({nodes[At(h.from)][0], nodes[At(h.to)][0], true, h.share, h.on_way ? 1.0 : 0.0});
  return OnePhase(std::move(hops), {.device_share = 2});
}

// Nodes are alike: which rails share a hop, and the trees of a rail, are found out once for all of them. The latency is
// that of the first rail's longest path, and of the way through the first node.
absl::StatusOr<NcclRoute> TreeRoute(const CollectiveShape& shape, const Places& places, std::vector<NcclHop> hops) {
  if (shape.kind != Communication::kAllReduce) return NoForm("tree", shape, "NCCL uses it only for all_reduce");
  const std::vector<std::vector<int>> ways = WaysThrough(places);
  if (places.RanksPerNode() == 0) {
    hops.clear();
    return UnequalTrees(RanksByNode(places), ways[0], std::move(hops));
  }
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

// ---- PAT ----
absl::StatusOr<NcclRoute> PatRoute(const CollectiveShape& shape, const Places& places, std::vector<NcclHop> storage) {
  const bool scatters = shape.kind == Communication::kReduceScatter;
  if (!scatters && shape.kind != Communication::kAllGather)
    return NoForm("pat", shape, "NCCL uses it only for all_gather and reduce_scatter");
  const int n = shape.ranks;
  if (places.nodes != n) return NoForm("pat", shape, "NCCL uses it only between nodes of one rank each");
  Hops hops(places, At(n) * At(CeilLog2(n)), std::move(storage));
  for (int distance = 1; distance < n; distance *= 2) {
    const double parts = std::min(distance, n - distance);  // that a rank hands on over this distance
    for (int i = 0; i < n; ++i) {
      const int j = (i + distance) % n;
      hops.Add(scatters ? j : i, scatters ? i : j, parts / n, i == 0 ? 1 : 0);
    }
  }
  return hops.Take({.device_share = static_cast<double>(n - 1) / n});
}

// ---- Messages ----
constexpr size_t kShiftsAtOnce = 16;  // to so many other nodes

double ShareOf(const CollectiveShape& shape, int from, int to) {
  switch (shape.kind) {
    case Communication::kAllToAll: return 1.0 / shape.ranks;
    case Communication::kGather: return to == shape.root ? 1.0 / shape.ranks : 0;
    case Communication::kScatter: return from == shape.root ? 1.0 / shape.ranks : 0;
    default: return shape.bytes > 0 ? shape.matrix[At(from)][At(to)] / shape.bytes : 0;
  }
}

// Every device reduces its part of what all others send it, then sends the result to all.
absl::StatusOr<NcclRoute> AllPairsRoute(const CollectiveShape& shape, const Places& places) {
  if (places.nodes > 1 || !places.pair_cables)
    return NoForm("direct", shape, "every two devices must have a cable, in one node");
  NcclRoute route;
  std::vector<NcclHop>& hops = route.phases.emplace_back();
  for (int i = 0; i < shape.ranks; ++i) {
    for (int j = 0; j < shape.ranks; ++j) {
      if (i != j) hops.push_back({i, j, false, 2.0 / shape.ranks, i == 0 && j == 1 ? 2.0 : 0.0});
    }
  }
  return route;
}

absl::StatusOr<NcclRoute> DirectRoute(const CollectiveShape& shape, const Places& places) {
  if (shape.kind == Communication::kAllReduce) return AllPairsRoute(shape, places);
  switch (shape.kind) {
    case Communication::kAllToAll:
    case Communication::kAllToAllV:
    case Communication::kGather:
    case Communication::kScatter: break;
    default:
      return NoForm("direct", shape, "NCCL uses point-to-point messages only for all_to_all, gather and scatter");
  }
  const auto nodes = RanksByNode(places);
  const size_t count = nodes.size();
  // Shifts that go together are spread over all distances, as adaptive routes and unsynchronised ranks spread them.
  const size_t first = std::min<size_t>(1, count - 1), phases = (count - first + kShiftsAtOnce - 1) / kShiftsAtOnce;
  NcclRoute route;
  for (size_t phase = 0; phase < phases; ++phase) {
    const size_t before = route.phases.empty() ? 0 : route.phases.back().size();
    std::vector<NcclHop>& hops = route.phases.emplace_back();
    hops.reserve(before);
    auto add = [&](const std::vector<int>& senders, const std::vector<int>& receivers, bool between) {
      for (int from : senders) {
        for (int to : receivers) {
          const double share = from == to ? 0 : ShareOf(shape, from, to);
          if (share > 0) hops.push_back({from, to, between, share});
        }
      }
    };
    for (size_t v = 0; v < count; ++v) {
      if (phase == 0) add(nodes[v], nodes[v], false);
      for (size_t shift = first + phase; shift < count; shift += phases) {
        if (shift > 0) add(nodes[v], nodes[(v + shift) % count], true);
      }
    }
  }
  route.node_peers = static_cast<int>(nodes[0].size()) - 1;
  route.network_peers = shape.ranks - 1 - route.node_peers;
  return route;
}

}  // namespace

NcclRoute Listed(NcclRoute route) {
  if (route.by_node == nullptr) return route;
  std::vector<NcclHop>& hops = route.phases[0];
  hops.reserve(route.by_node->size());
  route.by_node->List([&](int from, int to, int kind) {
    NcclHop& hop = hops.emplace_back(route.kinds[At(kind)]);
    hop.from = from, hop.to = to;
  });
  route.by_node = nullptr, route.kinds.clear();
  return route;
}

absl::StatusOr<NcclRoute> MakeNcclRoute(NcclAlgorithm algorithm, const CollectiveShape& shape, const Places& places,
                                        std::vector<NcclHop> storage) {
  switch (algorithm) {
    case NcclAlgorithm::kTree: return TreeRoute(shape, places, std::move(storage));
    case NcclAlgorithm::kNvls: return NvlsRoute(false, shape, places);
    case NcclAlgorithm::kNvlsTree: return NvlsRoute(true, shape, places);
    case NcclAlgorithm::kPat: return PatRoute(shape, places, std::move(storage));
    case NcclAlgorithm::kDirect: return DirectRoute(shape, places);
    case NcclAlgorithm::kRing: break;
  }
  switch (shape.kind) {
    case Communication::kAllReduce:
    case Communication::kAllGather:
    case Communication::kReduceScatter:
    case Communication::kBroadcast:
    case Communication::kReduce: return RingRoute(shape, places, std::move(storage));
    default: return NoForm("ring", shape, "NCCL uses point-to-point messages for it; use direct");
  }
}

}  // namespace twofold::sim
