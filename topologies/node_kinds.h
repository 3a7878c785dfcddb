// The kinds of node that cluster.proto describes: a row each.
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
  int devices;            // that such a node always has; 0: as Node.devices says
  // What is wrong with the kind's own fields, from "machines.node." on; those that all kinds share are right.
  absl::Status (*check)(const cluster::Node& node, int devices);
  // REQUIRES: check says OK.
  NodeType (*make)(const cluster::Node& node, int devices, const NodeNics& nics);
};

// All but imported nodes (Node.file).
const std::vector<NodeKind>& NodeKinds();
const NodeKind* FindNodeKind(cluster::Node::KindCase kind);  // null: not among them

}  // namespace twofold
