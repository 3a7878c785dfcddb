#include "topologies/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/format.h"
#include "core/base/philox.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

std::vector<int> InTurn(const Topology& topology, const std::vector<std::vector<int>>& devices) {
  std::map<int, std::vector<int>> groups;
  for (size_t n = 0; n < devices.size(); ++n) {
    if (!devices[n].empty()) groups[topology.GroupOf(devices[n][0])].push_back(static_cast<int>(n));
  }
  std::vector<int> order;
  for (size_t turn = 0, before = devices.size() + 1; order.size() != before; ++turn) {
    before = order.size();
    for (const auto& [group, nodes] : groups) {
      if (turn < nodes.size()) order.push_back(nodes[turn]);
    }
  }
  return order;
}

void Shuffle(uint64_t seed, std::vector<int>& order) {
  const PhiloxKey key = MakeKey(seed, "placement");
  for (size_t i = order.size(); i > 1; --i) {
    const auto bits = Philox(key, i);
    std::swap(order[i - 1], order[(static_cast<uint64_t>(bits[0]) << 32 | bits[1]) % i]);
  }
}

}  // namespace

absl::StatusOr<std::vector<int>> PlaceRanks(const Topology& topology, int ranks, const PlacementOptions& options,
                                            std::string_view field) {
  std::vector<std::vector<int>> devices(static_cast<size_t>(topology.nodes()));
  for (int e = 0; e < topology.endpoints(); ++e) devices[static_cast<size_t>(topology.NodeOf(e))].push_back(e);
  for (std::vector<int>& own : devices) {
    if (options.ranks_per_node > 0 && static_cast<int>(own.size()) > options.ranks_per_node)
      own.resize(static_cast<size_t>(options.ranks_per_node));
  }
  std::vector<int> order(devices.size());
  std::iota(order.begin(), order.end(), 0);
  switch (options.policy) {
    case PlacementOptions::kLinear: break;
    case PlacementOptions::kByGroup: order = InTurn(topology, devices); break;
    case PlacementOptions::kRandom: Shuffle(options.seed, order); break;
    case PlacementOptions::kHosts: {
      order.clear();
      for (size_t i = 0; i < options.hosts.size(); ++i) {
        const int64_t host = options.hosts[i];
        const std::string where = StrCat(field, ".hosts[", i, "]: ", host);
        if (host < 0 || host >= topology.nodes()) {
          return InvalidArgument(where, ": there is no such node; use 0 to ", topology.nodes() - 1);
        }
        if (std::find(order.begin(), order.end(), static_cast<int>(host)) != order.end()) {
          return InvalidArgument(where, ": named twice; name each node once");
        }
        order.push_back(static_cast<int>(host));
      }
    }
  }
  std::vector<int> endpoints;
  for (int node : order) {
    for (int e : devices[static_cast<size_t>(node)]) {
      if (static_cast<int>(endpoints.size()) < ranks) endpoints.push_back(e);
    }
  }
  if (static_cast<int>(endpoints.size()) == ranks) return endpoints;
  return InvalidArgument(field, ": ", ranks, " ranks do not fit on ", Counted(std::ssize(order), "node"), " with ",
                         endpoints.size(), " devices; name more nodes, or use fewer ranks");
}

}  // namespace twofold
