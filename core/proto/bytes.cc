#include "core/proto/bytes.h"

#include "core/base/status.h"

namespace twofold {

absl::StatusOr<std::string> ToBytes(const google::protobuf::MessageLite& message, std::string_view what) {
  const size_t size = message.ByteSizeLong();
  if (size > kMostMessageBytes) {
    return Internal(what, " takes ", size, " bytes, but one message holds at most ", kMostMessageBytes,
                    "; trace fewer ranks or steps (trace.ranks, trace.last_steps)");
  }
  std::string bytes;
  if (!message.SerializeToString(&bytes))
    return Internal(what, " cannot be serialized into a message of ", size, " bytes");
  return bytes;
}

absl::Status FromBytes(std::string_view bytes, std::string_view what, google::protobuf::MessageLite& message) {
  if (bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()) &&
      message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::OkStatus();
  }
  return Internal(what, ": ", bytes.size(), " bytes that are not a complete ", message.GetTypeName());
}

}  // namespace twofold
