// Nodes of one type, joined by a network at their NICs.
//
//     [network of ports]          port  n * nics + k  is NIC k of node n
//        |    |    |    |
//      [nic][nic] [nic][nic]      a node's own graph: devices, NVLink, PCIe, NICs
//      [ node 0 ] [ node 1 ]
//
// Within a node, routes are those of the node's own graph. Between nodes, a route has three parts: from the device to a
// NIC of its node, over the network between the two ports, and from the other node's NIC to the device. Rail k means
// NIC k of both nodes; a device reaches a NIC that is not its own over links of its node. Between a device and a NIC
// there is one path: the shortest one, or the one through the device next to the NIC if that is wider or the only one.
// (The latter is wider if devices have NVLink and the shortest path uses PCIe. NCCL calls this PXN.)
// Cost: a node's routes are computed once and serve all nodes; 2,048 nodes of 8 devices are built in tens of
// milliseconds.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "topologies/graph/graph.h"
#include "topologies/graph/topology.h"

namespace twofold {

struct NodeType {
  std::string kind;          // "nvswitch", "cube_mesh", ...
  Graph graph;               // of one node; vertex names are unique within it
  std::vector<int> devices;  // vertices: the endpoints, in order
  // vertices: the ports, in order; if empty, the device itself is the port (one device per node)
  std::vector<int> nics;
  std::vector<int> nic_of;  // by device: index in `nics` of its nearest NIC; empty if there are no NICs
  bool multicast = false;   // Topology::multicast_in_node
};

// Checks that this can be a node: it has devices, every device reaches every other, and for every NIC there is a device
// that reaches it and that it reaches. Errors name the vertices.
absl::Status CheckNodeType(const NodeType& node);

// REQUIRES CheckNodeType(node).ok(). `network` has nodes * max(1, nics) endpoints; it may be null for one node.
// Endpoint n * devices + d is device d of node n. vertices() holds the endpoints, then the other vertices of the nodes
// (node by node), then the other vertices of the network. links() holds the links of the nodes (node by node), then
// those of the network. With a network, names of a node's vertices and links begin with "n<node>.".
std::unique_ptr<Topology> MakeClusterTopology(NodeType node, int nodes, std::unique_ptr<Topology> network,
                                              bool reduction_in_network = false);

}  // namespace twofold
