#include "topologies/nodes/full_mesh.h"

#include "core/base/strings.h"

namespace twofold {

NodeType MakeFullMeshNode(const FullMeshNodeOptions& options) {
  NodeType node{.kind = "full_mesh"};
  for (int d = 0; d < options.devices; ++d) {
    const int device = node.graph.AddVertex({Vertex::kDevice, StrCat("gpu", d), 0});
    for (int other : node.devices)
      node.graph.AddCable(other, device, options.bandwidth, options.latency, Medium::kNvlink);
    node.devices.push_back(device);
  }
  AttachNics(options.nics, node.devices, node);
  return node;
}

}  // namespace twofold
