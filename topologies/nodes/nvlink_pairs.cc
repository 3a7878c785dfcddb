#include "topologies/nodes/nvlink_pairs.h"

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold {

NodeType MakeNvlinkPairsNode(const NvlinkPairsOptions& options) {
  TWOFOLD_CHECK_EQ(options.devices % 2, 0);
  NodeType node{.kind = "nvlink_pairs"};
  Graph& graph = node.graph;
  for (int d = 0; d < options.devices; ++d)
    node.devices.push_back(graph.AddVertex({Vertex::kDevice, StrCat("gpu", d), 0}));
  const int host = graph.AddVertex({Vertex::kHost, "host", 0});
  for (size_t d = 0; d < node.devices.size(); d += 2) {
    graph.AddCable(node.devices[d], node.devices[d + 1], options.bandwidth, options.latency, Medium::kNvlink);
  }
  for (int device : node.devices)
    graph.AddCable(device, host, options.pcie_bandwidth, options.pcie_latency, Medium::kPcie);
  AttachNics(options.nics, std::vector<int>(node.devices.size(), host), node);
  return node;
}

}  // namespace twofold
