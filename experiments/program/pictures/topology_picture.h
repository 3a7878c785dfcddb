// `twofold topology show`: a picture of a cluster: its network, one of its nodes, link widths and media.
#pragma once

#include <optional>
#include <string>

#include "core/proto/cluster.pb.h"
#include "topologies/graph/cluster_topology.h"
#include "topologies/graph/topology.h"

namespace twofold::pictures {

struct TopologyStory {
  std::string title, subtitle;
  const cluster::Cluster* cluster = nullptr;  // its network decides the layout; null: by levels
  const Topology* topology = nullptr;         // whole, with all nodes
  std::optional<NodeType> node;               // one of the nodes, if it is more than a single device
};

// An SVG element without a style sheet; StandAlone adds one.
std::string TopologyPicture(const TopologyStory& story);

}  // namespace twofold::pictures
