// Messages from rank to rank: PAT's over doubled distances, and those of direct, which go to every peer.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/collectives/builder.h"
#include "sim/collectives/nccl_hops.h"

namespace twofold::sim::nccl_routes {
namespace {

constexpr size_t kShiftsAtOnce = 16;  // to so many other nodes

double ShareOf(const CollectiveShape& shape, int from, int to) {
  switch (shape.kind) {
    case Communication::kGather: return to == shape.root ? 1.0 / shape.ranks : 0;
    case Communication::kScatter: return from == shape.root ? 1.0 / shape.ranks : 0;
    default: return shape.bytes > 0 ? shape.matrix[At(from)][At(to)] / shape.bytes : 0;
  }
}

// Shifts that go together are spread over all distances, as adaptive routes and unsynchronised ranks spread them: phase
// p has 1 + p, 1 + p + phases, ...
size_t PhasesOf(size_t nodes) { return std::max<size_t>(1, (nodes - 1 + kShiftsAtOnce - 1) / kShiftsAtOnce); }

// Every rank sends equally much to every other one.
NcclRoute AllToAllRoute(std::vector<std::vector<int>> nodes, int ranks) {
  const auto teams = std::make_shared<const std::vector<std::vector<int>>>(std::move(nodes));
  NcclRoute route;
  route.phases.resize(PhasesOf(teams->size()));
  for (size_t phase = 0; phase < route.phases.size(); ++phase) {
    PairFlows flows{.teams = teams, .within = phase == 0, .first = 1 + phase, .step = route.phases.size()};
    std::vector<NcclHop> kinds;  // only those that there are
    const auto add = [&](bool between, int& kind) {
      if ((between ? flows.FlowsBetween() : flows.FlowsWithin()) == 0) return;
      kind = static_cast<int>(kinds.size());
      kinds.push_back({0, 0, between, 1.0 / ranks});
    };
    add(false, flows.kind_within), add(true, flows.kind_between);
    route.pairs.push_back({std::make_shared<const PairFlows>(std::move(flows)), std::move(kinds)});
  }
  return route;
}

// Who sends whom how much depends on the call.
NcclRoute UnevenRoute(const std::vector<std::vector<int>>& nodes, const CollectiveShape& shape) {
  const size_t count = nodes.size(), phases = PhasesOf(count);
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
      for (size_t shift = 1 + phase; shift < count; shift += phases) add(nodes[v], nodes[(v + shift) % count], true);
    }
  }
  return route;
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

}  // namespace

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

// ---- Direct ----
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
  NcclRoute route =
      shape.kind == Communication::kAllToAll ? AllToAllRoute(nodes, shape.ranks) : UnevenRoute(nodes, shape);
  route.node_peers = static_cast<int>(nodes[0].size()) - 1;
  route.network_peers = shape.ranks - 1 - route.node_peers;
  return route;
}

}  // namespace twofold::sim::nccl_routes
