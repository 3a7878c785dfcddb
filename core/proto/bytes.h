// Serialises messages. Protocol Buffers hold less than 2 GiB. For a larger message they only print to stderr and return
// nothing, so these functions check the size.
#pragma once

#include <google/protobuf/message_lite.h>

#include <limits>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace twofold {

// Leaves room for the message that contains it.
inline constexpr size_t kMostMessageBytes = std::numeric_limits<int>::max() - (1 << 20);

// A message that is too large gives INTERNAL: "`what` takes 2200000000 bytes, ...". RESOURCE_EXHAUSTED would be
// read as an out-of-memory outcome.
absl::StatusOr<std::string> ToBytes(const google::protobuf::MessageLite& message, std::string_view what);

// INTERNAL if the bytes are not a complete message of this type. Empty bytes are an empty message.
absl::Status FromBytes(std::string_view bytes, std::string_view what, google::protobuf::MessageLite& message);

}  // namespace twofold
