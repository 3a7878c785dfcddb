#include "topologies/import/nearest_nic.h"

#include <limits>

namespace twofold {

std::vector<int> NearestNics(const NodeType& node) {
  if (node.nics.empty()) return {};
  Graph graph = node.graph;
  std::erase_if(graph.links, [](const Link& link) { return link.medium == Medium::kNvlink; });
  std::vector<int> users(node.nics.size(), 0), nearest;
  for (const int device : node.devices) {
    const ShortestRoutes routes(graph, device);
    const auto at = [&](size_t nic) {
      return routes.Reaches(node.nics[nic]) ? routes.Hops(node.nics[nic]) : std::numeric_limits<int>::max();
    };
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
