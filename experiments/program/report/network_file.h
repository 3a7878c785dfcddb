// What a network carried, drawn at several levels of detail, as a file: network.json.gz.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/proto/network.pb.h"

namespace twofold {

inline constexpr char kNetwork[] = "network.json.gz";

// Times are seconds since `origin`.
std::string NetworkFileBytes(network::Pictures pictures, double origin);

// Empty if there is no such file. Errors name the file and the field.
absl::StatusOr<network::Pictures> ReadNetworkFile(const std::string& path);

}  // namespace twofold
