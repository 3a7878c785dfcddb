// Fields of the spec for people.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/program/describe/fields.h"

namespace twofold {

// For each field its path with its default, its type and range, what it means, and its values; in lines of at most
// `width` columns where words allow. `colour`: paths are bold, by the escapes of terminals.
std::string FieldsText(const std::vector<const SpecField*>& fields, size_t width, bool colour);

}  // namespace twofold
