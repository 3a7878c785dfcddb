// What other programs call the values of enum fields.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace twofold {

// For a value that the field does not have: "; did you mean FULL_SHARD? (known: NO_SHARD, ...)", where FSDP is what
// others call it, or else the value that is spelt alike (core/base/suggestion.h).
std::string ValueSuggestion(const std::string& value, const google::protobuf::FieldDescriptor& field);

}  // namespace twofold
