// Parses text protos that users write, and reports errors in the user's terms.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"

namespace twofold {

// Reads `text` into `message`, which must be empty. Errors state file:line:column, the field's path, and the nearest
// known name or the expected type. A leading byte-order mark is skipped. Text and strings must be UTF-8, and strings
// must have no control characters, so that every message that quotes them can be printed.
absl::Status ParseText(const std::string& text, const std::string& file, google::protobuf::Message& message);

}  // namespace twofold
