#include "topologies/nodes/single.h"

namespace twofold {

NodeType MakeSingleNode(const NodeNics& nics) {
  NodeType node{.kind = "single"};
  node.devices.push_back(node.graph.AddVertex({Vertex::kDevice, "gpu0", 0}));
  AttachNics(nics, node.devices, node);
  return node;
}

}  // namespace twofold
