// Which fields of the spec somebody asks for.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/program/describe/fields.h"

namespace twofold {

struct FoundFields {
  std::vector<const SpecField*> fields;  // owned by the list that was searched
  bool by_path = false;                  // the first is the field at this path, and what follows is below it
};

// `word`: a path ("parallel.sharding"), or a word that fields are searched for, in any case: first their names, then
// names of values and all meanings. Refuses a path that does not exist, and a word that is nowhere.
absl::StatusOr<FoundFields> FindFields(const std::vector<SpecField>& fields, const std::string& word);

}  // namespace twofold
