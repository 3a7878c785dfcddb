// The kinds of network between nodes that cluster.proto describes: a row each.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/cluster.pb.h"
#include "topologies/graph/topology.h"

namespace twofold {

struct NetworkKind {
  cluster::Network::KindCase kind;
  std::string_view name;  // as in cluster.proto
  bool grows;             // its structure does not depend on how many ports it has: only those used are built
  // Ports n * rails + k are NIC k of node n. The message starts with the kind's field
  // ("radix = 1: must ..."), or with "ports = " where there are too many.
  absl::Status (*check)(const cluster::Network& network, int ports, int rails);
  // REQUIRES: check says OK.
  std::unique_ptr<Topology> (*make)(const cluster::Network& network, int ports, int rails);
};

const std::vector<NetworkKind>& NetworkKinds();
const NetworkKind* FindNetworkKind(cluster::Network::KindCase kind);  // null: not among them

}  // namespace twofold
