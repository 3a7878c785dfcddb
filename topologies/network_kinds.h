// A table of the network kinds that cluster.proto describes, one row each.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/proto/cluster.pb.h"
#include "topologies/graph/topology.h"

namespace twofold {

struct NetworkKind {
  cluster::Network::KindCase kind;
  std::string_view name;  // as in cluster.proto
  bool grows;             // its structure does not depend on the number of ports, so only the used ports are built
  // Port n * rails + k is NIC k of node n. The message starts with the field of this kind ("radix = 1: must ..."), or
  // with "ports = " if there are too many ports.
  absl::Status (*check)(const cluster::Network& network, int ports, int rails);
  // REQUIRES that `check` returns OK.
  std::unique_ptr<Topology> (*make)(const cluster::Network& network, int ports, int rails);
};

const std::vector<NetworkKind>& NetworkKinds();
const NetworkKind* FindNetworkKind(cluster::Network::KindCase kind);  // null if unknown

}  // namespace twofold
