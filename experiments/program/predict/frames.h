// Messages over a stream socket: the size in 8 bytes, then the bytes. Both ends are processes of this machine.
#pragma once

#include <google/protobuf/message_lite.h>

#include "absl/status/status.h"

namespace twofold::prediction {

// UNAVAILABLE if the other end has gone.
absl::Status Send(int fd, const google::protobuf::MessageLite& message);
absl::Status Receive(int fd, google::protobuf::MessageLite& message);

}  // namespace twofold::prediction
