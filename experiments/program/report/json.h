// Protocol Buffers messages as JSON: snake_case names, every number as a number (64-bit integers too), zeros present.
// (protobuf's own printer writes 64-bit integers as strings and omits zeros.)
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"

namespace twofold {

// Fields are in the order of the proto file. Unset scalars appear with their default, repeated fields as lists, even if
// empty; unset blocks are omitted. Enums are written as their names, NaN and infinities as null.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

// The reverse; `message` is cleared first. Null for a floating-point field reads as NaN. Refuses unknown keys and
// values of a wrong type or out of range. Errors name the path to the value ("steps[3].loss").
absl::Status FromJson(const nlohmann::ordered_json& json, google::protobuf::Message* message);

// The text that is written to files: indented by two spaces, numbers in their shortest exact form, invalid UTF-8
// replaced. Equal JSON gives equal bytes.
std::string JsonText(const nlohmann::ordered_json& json);

}  // namespace twofold
