// Clusters of other sizes: a fat tree has a rule by which it grows, so a description of one size describes all of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/proto/cluster.pb.h"

namespace twofold {

// Gives the cluster at least `nodes` nodes. It is not changed if it has them. A fat tree grows: to as many pods as it
// needs, and to 3 levels if 2 are not enough, with the same switches and oversubscriptions. `note` then says so.
// Refuses what the cluster cannot have, with the number of nodes that would be right. `field` is the beginning of the
// message: "fabric.simulated.nodes: " or "--nodes=".
absl::Status Grow(int64_t nodes, std::string_view field, cluster::Cluster& cluster, std::string& note);

// Replaces the oversubscription of a fat tree's leaves, and that of its middle switches, which gives it 3 levels; 0:
// leaves it as it is. Refuses other networks, and values with which the cluster's nodes cannot be joined. `prefix` is
// what the names of the fields begin with: "fabric.simulated." or "--".
absl::Status Oversubscribe(double leaves, double top, std::string_view prefix, cluster::Cluster& cluster,
                           std::string& note);

}  // namespace twofold
