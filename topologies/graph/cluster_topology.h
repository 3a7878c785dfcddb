// Nodes of one type, joined by a network at their NICs.
//
//     [network of ports]          port  n * nics + k  is NIC k of node n
//        |    |    |    |
//      [nic][nic] [nic][nic]      a node's own graph: devices, NVLink, PCIe, NICs
//      [ node 0 ] [ node 1 ]
//
// Within a node routes are the node's own; between nodes: device -> its node's NIC, the network's routes between the two
// ports, NIC -> device. Rail k goes through NIC k of both nodes (over the node's own links where the device sits elsewhere).
// Between a device and a NIC there is one way: the shortest, or the one through the device next to the NIC where that is wider
// (over NVLink, as NCCL's PXN; the PCIe tree is narrower) or the only one.
// Cost: a node's routes are computed once and serve all nodes; 2,048 nodes of 8 devices are built in tens of milliseconds.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "topologies/graph/graph.h"
#include "topologies/graph/topology.h"

namespace twofold {

struct NodeType {
  std::string kind;             // "nvswitch", "cube_mesh", ...
  Graph graph;                  // of one node; vertices' names are unique in it
  std::vector<int> devices;     // vertices: the endpoints, in order
  std::vector<int> nics;        // vertices: the ports, in order; none: the device itself is the port (one device a node)
  std::vector<int> nic_of;      // by device: its nearest NIC, a number in `nics`; empty where there are none
  bool multicast = false;       // Topology::multicast_in_node
};

// Whether it can be a node: it has devices, each reaches every other, and every NIC hangs where some device reaches it and it
// reaches that device. What is wrong names the vertices.
absl::Status CheckNodeType(const NodeType& node);

// REQUIRES CheckNodeType(node).ok(). `network` has nodes * max(1, nics) endpoints; null for one node. Endpoint
// n * devices + d is device d of node n; vertices() has the endpoints, what else the nodes hold (node by node) and what else
// the network has; links() the nodes' (node by node), then the network's. Names of a node's vertices and links begin with
// "n<node>." where there is a network.
std::unique_ptr<Topology> MakeClusterTopology(NodeType node, int nodes, std::unique_ptr<Topology> network,
                                              bool reduction_in_network = false);

}  // namespace twofold
