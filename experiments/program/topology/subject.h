// The subject of a subcommand, as a topology: a cluster by name, a cluster file, or an imported file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/proto/cluster.pb.h"
#include "topologies/build.h"

namespace twofold::topology {

struct Subject {
  cluster::Cluster cluster;
  std::unique_ptr<Topology> topology;
  std::optional<NodeType> node;
  int nodes = 1;  // of the cluster, or as requested
};

// Files other than .textproto are imported; the cluster is then one such node.
absl::StatusOr<cluster::Cluster> Find(const std::string& name);

// How many nodes are used, which may grow the cluster. `asked`: absent: all; of a host with shared memory, which may
// have any number of ranks, its number of cores, else 4.
absl::StatusOr<int> NodesOf(cluster::Cluster& c, std::optional<int64_t> asked);

absl::StatusOr<Subject> Load(const std::string& name, std::optional<int64_t> nodes);

}  // namespace twofold::topology
