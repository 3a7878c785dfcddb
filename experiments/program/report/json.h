// Protocol Buffers messages as JSON: snake_case names, every number a number (64-bit integers too), zeros
// present. (protobuf's own printer writes 64-bit integers as strings and leaves zeros out.)
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"

namespace twofold {

// Fields in the order of the proto file. Scalars that are unset appear with their default, repeated fields as
// lists, empty ones too; blocks that are unset are left out. Enums are their names; NaN and infinities are
// null.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

// The reverse; `message` is cleared first. Null for a floating-point field reads as NaN. Refuses keys that
// the message does not have and values of another type or out of range, naming the path to them
// ("steps[3].loss").
absl::Status FromJson(const nlohmann::ordered_json& json, google::protobuf::Message* message);

// The text that is written to files: two spaces of indentation, numbers as short as they can be without
// changing, text that is not UTF-8 made so. Equal JSON gives equal bytes.
std::string JsonText(const nlohmann::ordered_json& json);

}  // namespace twofold
