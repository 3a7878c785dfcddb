// Specs written in JSON.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace twofold {

// Whether a user's file is JSON: by its ending .json, or because it begins with a brace, as no text proto does.
bool IsJson(std::string_view text, std::string_view file);

// Reads `text` into `message`, which must be empty, by the JSON form of Protocol Buffers: names as in the .proto file
// or in camelCase, numbers also as texts, null for a field that is absent. A top-level "$schema", which editors read,
// is skipped. Errors as in ParseText (core/proto/parse_text.h): the place where the text is no JSON, else the field's
// path, the value, and what would be right. A field that is given twice is refused.
absl::Status ParseJsonText(const std::string& text, const std::string& file, google::protobuf::Message& message);

}  // namespace twofold
