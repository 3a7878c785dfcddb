// Rings and chains: the ways through a node over its rails' devices and its cables, and the rings that follow them
// from node to node.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/collectives/builder.h"
#include "sim/collectives/nccl_hops.h"

namespace twofold::sim::nccl_routes {
namespace {

// The rails of a node, in the order of its devices, and the first device on each, by its local number.
struct RailDevice {
  int rail, device;
};
// `node`: its ranks.
std::vector<RailDevice> RailDevices(const Places& places, const std::vector<int>& node) {
  std::vector<RailDevice> devices;
  for (size_t l = 0; l < node.size(); ++l) {
    const int rail = places.rail[At(node[l])];
    if (std::none_of(devices.begin(), devices.end(), [&](const RailDevice& d) { return d.rail == rail; }))
      devices.push_back({rail, static_cast<int>(l)});
  }
  return devices;
}

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

}  // namespace

std::vector<std::vector<std::vector<int>>> WaysThroughAll(const Places& places,
                                                          const std::vector<std::vector<int>>& nodes) {
  std::vector<std::vector<RailDevice>> devices;
  for (const std::vector<int>& node : nodes) devices.push_back(RailDevices(places, node));
  const auto fewest = std::min_element(devices.begin(), devices.end(),
                                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
  // Ring r is on the r-th rail of the node with the fewest; in nodes without that rail, on another one.
  const std::vector<RailDevice> rails = *fewest;
  const auto is_on = [](int rail) { return [rail](const RailDevice& d) { return d.rail == rail; }; };
  std::vector<std::vector<std::vector<int>>> ways;
  for (size_t v = 0; v < nodes.size(); ++v) {
    std::vector<std::vector<int>>& of_node = ways.emplace_back();
    auto other = devices[v].begin();
    for (const RailDevice& ring : rails) {
      auto on = std::find_if(devices[v].begin(), devices[v].end(), is_on(ring.rail));
      if (on == devices[v].end()) {
        while (std::any_of(rails.begin(), rails.end(), is_on(other->rail))) ++other;
        on = other++;
      }
      of_node.push_back(WayThrough(places, nodes[v], on->device));
    }
  }
  return ways;
}

std::vector<std::vector<int>> WaysThrough(const Places& places) {
  std::vector<int> node;  // the first one's ranks
  for (int r = 0; r < places.ranks(); ++r)
    if (places.node[At(r)] == 0) node.push_back(r);
  std::vector<std::vector<int>> ways;
  for (const RailDevice& on : RailDevices(places, node)) ways.push_back(WayThrough(places, node, on.device));
  return ways;
}

namespace {

std::vector<Ring> Rings(const Places& places) {
  std::vector<Ring> rings;
  if (places.nodes == 1) {
    if (!places.joints.empty()) rings = RingsOverCables(places);
    if (!rings.empty()) return rings;
    for (std::vector<int>& order : CyclicOrders(places.ranks())) rings.push_back({std::move(order), 1});
  } else {
    const auto nodes = RanksByNode(places);
    const auto ways = WaysThroughAll(places, nodes);
    for (size_t r = 0; r < ways[0].size(); ++r) {
      Ring& ring = rings.emplace_back(Ring{{}, 1});
      for (size_t v = 0; v < nodes.size(); ++v) {
        for (const int local : ways[v][r]) ring.order.push_back(nodes[v][At(local)]);
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

}  // namespace

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

}  // namespace twofold::sim::nccl_routes
