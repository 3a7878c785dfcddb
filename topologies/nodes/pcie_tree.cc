#include "topologies/nodes/pcie_tree.h"

#include "core/base/strings.h"

namespace twofold {

NodeType MakePcieTreeNode(const PcieTreeOptions& options) {
  NodeType node{.kind = "pcie_tree"};
  Graph& graph = node.graph;
  for (int d = 0; d < options.devices; ++d)
    node.devices.push_back(graph.AddVertex({Vertex::kDevice, StrCat("gpu", d), 0}));
  std::vector<int> switches, sockets, hang;
  for (int device : node.devices) {
    if (hang.size() % static_cast<size_t>(options.devices_per_switch) == 0) {
      if (switches.size() % static_cast<size_t>(options.switches_per_socket) == 0) {
        const int socket = graph.AddVertex({Vertex::kHost, StrCat("socket", sockets.size()), 0, -1, 2});
        for (int other : sockets)
          graph.AddCable(other, socket, options.socket_bandwidth, options.pcie_latency, Medium::kMemory);
        sockets.push_back(socket);
      }
      switches.push_back(graph.AddVertex({Vertex::kSwitch, StrCat("plx", switches.size()), 0, -1, 1}));
      graph.AddCable(switches.back(), sockets.back(), options.pcie_bandwidth, options.pcie_latency, Medium::kPcie);
    }
    hang.push_back(switches.back());
    graph.AddCable(device, switches.back(), options.pcie_bandwidth, options.pcie_latency, Medium::kPcie);
  }
  AttachNics(options.nics, hang, node);
  return node;
}

}  // namespace twofold
