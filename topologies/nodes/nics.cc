#include "topologies/nodes/nics.h"

#include <algorithm>

#include "core/base/strings.h"

namespace twofold {

void AttachNics(const NodeNics& nics, const std::vector<int>& hang, NodeType& node) {
  if (nics.count == 0) return;
  const int devices = static_cast<int>(node.devices.size());
  std::vector<std::vector<int>> at(static_cast<size_t>(nics.count));
  for (int d = 0; d < devices; ++d) {
    const int nearest = static_cast<int>(int64_t{d} * nics.count / devices);
    node.nic_of.push_back(nearest);
    std::vector<int>& vertices = at[static_cast<size_t>(nearest)];
    const int vertex = hang[static_cast<size_t>(d)];
    if (std::find(vertices.begin(), vertices.end(), vertex) == vertices.end()) vertices.push_back(vertex);
  }
  for (int k = 0; k < nics.count; ++k) {
    const int nic = node.graph.AddVertex({Vertex::kNic, StrCat("nic", k), 0});
    node.nics.push_back(nic);
    std::vector<int>& vertices = at[static_cast<size_t>(k)];
    if (vertices.empty()) vertices.push_back(hang[static_cast<size_t>(int64_t{k} * devices / nics.count)]);
    for (int vertex : vertices) node.graph.AddCable(vertex, nic, nics.bandwidth, nics.latency, nics.medium);
  }
}

}  // namespace twofold
