// The catalogue of clusters that ships with the program, and users' files in the same format.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/cluster.pb.h"

namespace twofold {

inline constexpr std::string_view kThisMachine = "this-machine";  // the cluster that represents this machine

struct ClusterInfo {
  std::string name, summary, source;
};
std::vector<ClusterInfo> ListClusters();

// `name_or_path` is a catalogue name or the path of a .textproto file. Refuses unknown names (the message lists the
// known ones) and incomplete or impossible descriptions (the message names file, field and value). Node files and
// device profiles are looked up in the folder of the cluster's file. `field`, for messages, is the field of the spec
// that holds the name.
absl::StatusOr<cluster::Cluster> FindCluster(std::string_view name_or_path,
                                             std::string_view field = "fabric.simulated.cluster");

// A device of topologies/catalogue/devices, such as h100-sxm, or a file with a cluster.Device. Clusters refer to it by
// device_profile. Refuses unknown names (the message lists near ones) and incomplete descriptions.
absl::StatusOr<cluster::Device> FindDevice(std::string_view name_or_path, std::string_view field = "device_profile");
std::vector<std::string> ListDevices();

// The text of a profile that ships with the catalogue. Entries refer to it by name in device.profile.
std::optional<std::string_view> FindCatalogueProfile(std::string_view name);

}  // namespace twofold
