#include "topologies/import/nearest_nic.h"

#include <limits>

namespace twofold {

std::vector<int> NearestNics(const NodeType& node) {
  constexpr int kFar = std::numeric_limits<int>::max();
  if (node.nics.empty()) return {};
  std::vector<std::vector<int>> next(node.graph.vertices.size());
  for (const Link& link : node.graph.links) {
    if (link.medium != Medium::kNvlink) next[static_cast<size_t>(link.from)].push_back(link.to);
  }
  std::vector<int> users(node.nics.size(), 0), nearest;
  for (const int device : node.devices) {
    std::vector<int> hops(node.graph.vertices.size(), kFar), queue = {device};
    hops[static_cast<size_t>(device)] = 0;
    for (size_t i = 0; i < queue.size(); ++i) {
      for (const int v : next[static_cast<size_t>(queue[i])]) {
        if (hops[static_cast<size_t>(v)] != kFar) continue;
        hops[static_cast<size_t>(v)] = hops[static_cast<size_t>(queue[i])] + 1;
        queue.push_back(v);
      }
    }
    const auto at = [&](size_t nic) { return hops[static_cast<size_t>(node.nics[nic])]; };
    size_t best = 0;
    for (size_t nic = 1; nic < node.nics.size(); ++nic) {
      if (at(nic) < at(best) || (at(nic) == at(best) && users[nic] < users[best])) best = nic;
    }
    ++users[best];
    nearest.push_back(static_cast<int>(best));
  }
  return nearest;
}

}  // namespace twofold
