// A table of the node kinds that cluster.proto describes, one row each.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/proto/cluster.pb.h"
#include "topologies/nodes/nics.h"

namespace twofold {

struct NodeKind {
  cluster::Node::KindCase kind;
  std::string_view name;  // as in cluster.proto
  int devices;            // fixed number of devices of this kind; 0: Node.devices gives it
  // Checks the fields of this kind only; the fields that all kinds share are valid already. Messages start after
  // "machines.node.".
  absl::Status (*check)(const cluster::Node& node, int devices);
  // REQUIRES that `check` returns OK.
  NodeType (*make)(const cluster::Node& node, int devices, const NodeNics& nics);
};

// All kinds except imported nodes (Node.file).
const std::vector<NodeKind>& NodeKinds();
const NodeKind* FindNodeKind(cluster::Node::KindCase kind);  // null if unknown

}  // namespace twofold
