// `twofold topology show`: a cluster as a picture: its network, one of its nodes, link widths and media.
#pragma once

#include <optional>
#include <string>

#include "core/proto/cluster.pb.h"
#include "topologies/graph/cluster_topology.h"
#include "topologies/graph/topology.h"

namespace twofold::pictures {

struct TopologyStory {
  std::string title, subtitle;
  const cluster::Cluster* cluster = nullptr;  // whose network says how it is laid out; null: by levels
  const Topology* topology = nullptr;         // whole, with all nodes
  std::optional<NodeType> node;               // one of them, where it is more than a device
};

// An SVG element without style; StandAlone gives it one.
std::string TopologyPicture(const TopologyStory& story);

}  // namespace twofold::pictures
