// Fields of the spec for programs and editors.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "experiments/program/describe/fields.h"

namespace twofold {

// A list of {path, type, list, default, least, above, most, below, meaning, values, excludes}; what does not apply is
// absent. Defaults are values of JSON.
nlohmann::ordered_json FieldsJson(const std::vector<const SpecField*>& fields);

// The JSON Schema (draft 2020-12) of specs that are written in JSON. `fields`: all of them.
nlohmann::ordered_json SpecSchema(const std::vector<SpecField>& fields);

}  // namespace twofold
