#include "topologies/nodes/nvswitch.h"

#include "core/base/strings.h"

namespace twofold {

NodeType MakeNvSwitchNode(const NvSwitchNodeOptions& options) {
  NodeType node{.kind = "nvswitch", .multicast = options.multicast};
  for (int d = 0; d < options.devices; ++d)
    node.devices.push_back(node.graph.AddVertex({Vertex::kDevice, StrCat("gpu", d), 0}));
  const int nvswitch = node.graph.AddVertex({Vertex::kSwitch, "nvswitch", 0});
  for (int device : node.devices) {
    node.graph.AddCable(device, nvswitch, options.bandwidth, options.latency / 2, Medium::kNvlink);
  }
  AttachNics(options.nics, node.devices, node);
  return node;
}

}  // namespace twofold
