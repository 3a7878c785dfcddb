// Builds the topology of a cluster from its description.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/proto/cluster.pb.h"
#include "topologies/graph/cluster_topology.h"
#include "topologies/graph/topology.h"

namespace twofold {

// `nodes` is the number of nodes used, 1 to MostNodes. Where the network's structure depends on its size (fat tree,
// dragonfly, Slingshot, torus, HammingMesh, full mesh), the whole cluster is built, including the unused nodes. The
// used nodes then have the routes, distances and groups that they have in the whole cluster. A star is built with the
// used nodes only. A single node has no network. A shared-memory host has `nodes` ranks and the file's figures
// (defaults: SharedMemoryHostOptions).
//
// The cluster must come from FindCluster or pass CheckCluster. Refuses node counts out of range and node files that
// cannot be read. Messages start with the field.
absl::StatusOr<std::unique_ptr<Topology>> BuildTopology(const cluster::Cluster& cluster, int nodes);
// The nodes of what it builds. Numbers of used nodes for which this is equal give equal topologies.
int NodesBuilt(const cluster::Cluster& cluster, int nodes);

// The largest number of nodes: the hosts of a star. The ranks of a shared-memory host are not limited (the result is
// int's maximum).
int64_t MostNodes(const cluster::Cluster& cluster);
// Refuses node counts that the cluster does not have: "fabric.simulated.nodes: 1000: cluster dgx-h100 has 256 nodes;
// use 1 to 256". `field` is the beginning of the message: "fabric.simulated.nodes: " or "--nodes=".
absl::Status CheckNodes(const cluster::Cluster& cluster, int64_t nodes, std::string_view field);
// Devices of one node. For an imported node they are counted in its file.
absl::StatusOr<int> DevicesPerNode(const cluster::Cluster& cluster);

// Builds one node of `machines`. It has NICs if the cluster has a network or if the file gives the rate of their
// cables.
absl::StatusOr<NodeType> BuildNode(const cluster::Machines& machines);

// Checks that a cluster can be built, without building it: every field present has a sensible value, and no required
// field is missing. Messages start with the field ("machines.node.devices = 0: must be ...").
absl::Status CheckCluster(const cluster::Cluster& cluster);

}  // namespace twofold
