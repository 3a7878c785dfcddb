// From a cluster's description to its topology.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/proto/cluster.pb.h"
#include "topologies/graph/cluster_topology.h"
#include "topologies/graph/topology.h"

namespace twofold {

// `nodes`: as many as are used, 1 to MostNodes. Where the network's structure depends on its size (fat tree, dragonfly,
// Slingshot, torus, HammingMesh, full mesh) the whole cluster is built, the nodes that are not used, too, so that those used
// have the routes, distances and groups that they would have there; a star has the nodes that are used. One node alone has no
// network. A host of shared memory has `nodes` ranks and the figures of the file (of SharedMemoryHostOptions without).
//
// The cluster is one that FindCluster gave or that CheckCluster passes; refused are nodes out of range and node files that
// cannot be read. Messages start with the field.
absl::StatusOr<std::unique_ptr<Topology>> BuildTopology(const cluster::Cluster& cluster, int nodes);

// The most nodes there are (hosts of a star; ranks of a host of shared memory are not limited: int's largest).
int64_t MostNodes(const cluster::Cluster& cluster);
// Refuses nodes that there are not: "fabric.simulated.nodes: 1000: cluster dgx-h100 has 256 nodes; use 1 to 256". `field`: how the
// message starts, "fabric.simulated.nodes: " or "--nodes=".
absl::Status CheckNodes(const cluster::Cluster& cluster, int64_t nodes, std::string_view field);
// Of a node; those of an imported one are counted in its file.
absl::StatusOr<int> DevicesPerNode(const cluster::Cluster& cluster);

// One node of `machines`; NICs hang in it where there is a network or where the file gives the rate of their cables.
absl::StatusOr<NodeType> BuildNode(const cluster::Machines& machines);

// Whether a cluster can be built, without building it: every field that is there has a value that makes sense, and what must
// be there is. Messages start with the field ("machines.node.devices = 0: must be ...").
absl::Status CheckCluster(const cluster::Cluster& cluster);

}  // namespace twofold
