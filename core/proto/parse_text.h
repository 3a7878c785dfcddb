// Text protos as users write them, with errors in the user's terms.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"

namespace twofold {

// Reads `text` into `message`, which is empty. Errors: file:line:column, the field's path, and the nearest known name or the
// type expected. A byte-order mark before the text is skipped. Text and strings are UTF-8, and strings have no control characters: so
// whatever a message quotes can be printed.
absl::Status ParseText(const std::string& text, const std::string& file, google::protobuf::Message& message);

}  // namespace twofold
