// Messages as bytes, and back. Protocol Buffers hold less than 2 GiB; of more they tell stderr, and return nothing.
#pragma once

#include <google/protobuf/message_lite.h>

#include <limits>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace twofold {

// With room for the message that carries it.
inline constexpr size_t kMostMessageBytes = std::numeric_limits<int>::max() - (1 << 20);

// RESOURCE_EXHAUSTED would be a prediction of memory; a message that is too large is INTERNAL: "`what` takes 2200000000 bytes, ...".
absl::StatusOr<std::string> ToBytes(const google::protobuf::MessageLite& message, std::string_view what);

// INTERNAL where the bytes are no whole message of this kind. No bytes are an empty one.
absl::Status FromBytes(std::string_view bytes, std::string_view what, google::protobuf::MessageLite& message);

}  // namespace twofold
