#include "topologies/nodes/cube_mesh.h"

#include "topologies/nodes/pcie_tree.h"

namespace twofold {
namespace {

constexpr struct {
  int a, b, links;
} kBundles[] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
                {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};

}  // namespace

NodeType MakeCubeMeshNode(const CubeMeshOptions& options) {
  NodeType node = MakePcieTreeNode({.devices = 8,
                                    .devices_per_switch = 2,
                                    .switches_per_socket = 2,
                                    .pcie_bandwidth = options.pcie_bandwidth,
                                    .pcie_latency = options.pcie_latency,
                                    .socket_bandwidth = options.socket_bandwidth,
                                    .nics = options.nics});
  node.kind = "cube_mesh";
  for (const auto& [a, b, links] : kBundles) {
    node.graph.AddCable(node.devices[static_cast<size_t>(a)], node.devices[static_cast<size_t>(b)],
                        options.link_bandwidth * links, options.latency, Medium::kNvlink);
  }
  return node;
}

}  // namespace twofold
