// --set=@FILE: a file of settings, as if each of its fields were given by a --set of its own.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace twofold {

struct Setting {
  std::string assignment;  // "path=value"
  std::string source;      // what the user wrote, for messages: "--set train.steps=10", or the file
};

// The settings that `sets` stand for, in order. "@FILE" names a spec in either form that states only some fields: lists
// replace lists, blocks are gone through field by field, and an empty block empties the spec's. Refuses a file that
// cannot be read or is no spec.
absl::StatusOr<std::vector<Setting>> ReadSets(absl::Span<const std::string> sets);

// Their assignments alone.
absl::StatusOr<std::vector<std::string>> ExpandSets(absl::Span<const std::string> sets);

}  // namespace twofold
