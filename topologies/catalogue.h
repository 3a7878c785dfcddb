// The catalogue of clusters that ships with the program, and files of the same form by users.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/cluster.pb.h"

namespace twofold {

inline constexpr std::string_view kThisMachine = "this-machine";  // the cluster that stands for it

struct ClusterInfo {
  std::string name, summary, source;
};
std::vector<ClusterInfo> ListClusters();

// A catalogue name, or the path of a .textproto file. Refuses unknown names (listing the known) and incomplete or
// impossible descriptions, naming file, field and value. A node's file and a device's profile are looked for
// in the folder of the cluster's. `field`: where the name stands in a spec, for messages.
absl::StatusOr<cluster::Cluster> FindCluster(std::string_view name_or_path,
                                             std::string_view field = "fabric.simulated.cluster");

// The text of a profile that ships with the catalogue, whose entries' device.profile is its name.
std::optional<std::string_view> FindCatalogueProfile(std::string_view name);

}  // namespace twofold
