// What other programs call fields of a spec, and the values of its enum fields.
#pragma once

#include <google/protobuf/descriptor.h>

#include <span>
#include <string>
#include <string_view>

namespace twofold {

// A field that others call `theirs`; some names mean one of several fields, and have a row for each.
struct OtherField {
  std::string_view theirs, path;
};
std::span<const OtherField> OtherFields();

// For a value that the field does not have: "; did you mean FULL_SHARD? (known: NO_SHARD, ...)", where FSDP is what
// others call it, or else the value that is spelt alike (core/base/suggestion.h).
std::string ValueSuggestion(const std::string& value, const google::protobuf::FieldDescriptor& field);

}  // namespace twofold
