#include "topologies/nodes/wired.h"

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// NIC k is on device nic_at[k]. The nearest NIC of a device is its own; otherwise that of the device with a NIC to
// which it has the widest cable; otherwise devices are spread evenly over NICs.
void HangNics(const WiredNodeOptions& options, NodeType& node) {
  TWOFOLD_CHECK_EQ(options.nic_at.size(), static_cast<size_t>(options.nics.count));
  std::vector<int> own(node.devices.size(), -1);
  for (int k = 0; k < options.nics.count; ++k) {
    const size_t at = static_cast<size_t>(options.nic_at[static_cast<size_t>(k)]);
    node.nics.push_back(node.graph.AddVertex({Vertex::kNic, StrCat("nic", k), 0}));
    node.graph.AddCable(node.devices[at], node.nics.back(), options.nics.bandwidth, options.nics.latency,
                        options.nics.medium);
    if (own[at] < 0) own[at] = k;
  }
  std::vector<BytesPerSecond> widest(node.devices.size());
  node.nic_of = own;
  auto offer = [&](int to, int by, BytesPerSecond bandwidth) {
    const size_t device = static_cast<size_t>(to);
    if (own[device] >= 0 || own[static_cast<size_t>(by)] < 0 || bandwidth <= widest[device]) return;
    node.nic_of[device] = own[static_cast<size_t>(by)], widest[device] = bandwidth;
  };
  for (const WiredNodeOptions::Cable& c : options.cables) offer(c.a, c.b, c.bandwidth), offer(c.b, c.a, c.bandwidth);
  for (size_t d = 0; d < node.nic_of.size(); ++d) {
    if (node.nic_of[d] < 0) node.nic_of[d] = static_cast<int>(d * node.nics.size() / node.nic_of.size());
  }
}

}  // namespace

NodeType MakeWiredNode(const WiredNodeOptions& options) {
  NodeType node{.kind = "wired"};
  Graph& graph = node.graph;
  for (int d = 0; d < options.devices; ++d)
    node.devices.push_back(graph.AddVertex({Vertex::kDevice, StrCat("gpu", d), 0}));
  std::vector<int> sockets, hang;
  for (int device : node.devices) {
    if (hang.size() % static_cast<size_t>(options.devices_per_socket) == 0) {
      const int socket = graph.AddVertex({Vertex::kHost, StrCat("socket", sockets.size()), 0});
      for (int other : sockets)
        graph.AddCable(other, socket, options.socket_bandwidth, options.host_latency, Medium::kMemory);
      sockets.push_back(socket);
    }
    hang.push_back(sockets.back());
    graph.AddCable(device, sockets.back(), options.host_bandwidth, options.host_latency, Medium::kPcie);
  }
  for (const WiredNodeOptions::Cable& cable : options.cables) {
    graph.AddCable(node.devices[static_cast<size_t>(cable.a)], node.devices[static_cast<size_t>(cable.b)],
                   cable.bandwidth, options.latency, Medium::kNvlink);
  }
  if (options.nics.count == 0) return node;
  if (options.nic_at.empty()) {
    AttachNics(options.nics, hang, node);
  } else {
    HangNics(options, node);
  }
  return node;
}

}  // namespace twofold
