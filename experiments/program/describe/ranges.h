// The ranges of the spec's numbers, as validation has them.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "experiments/program/spec/problems/problems.h"

namespace twofold {

// For each path, the fields that lead to a number from the root. The result has the bounds that do not depend on other
// fields: those that stay when all numbers of a spec are doubled. Fields whose range is only in other code are absent.
BoundsByPath FixedRanges(const std::vector<std::vector<const google::protobuf::FieldDescriptor*>>& numbers);

}  // namespace twofold
