// Specs drawn at random over all fields that a plan may be asked with, for tests of what must hold of every spec.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/proto/spec.pb.h"

namespace twofold::plan::test {

struct DrawnSpec {
  spec::Spec spec;  // as a user writes it; it may be refused
  int64_t ranks = 1;
};
// A model, a cluster, a number of ranks and degrees of parallelism for it, and a few of all other fields.
DrawnSpec DrawSpec(std::mt19937_64& random);

// The paths of fields that DrawSpec may set ("parallel.wrap.module"), and of those that it leaves alone, each with its
// reason. A block that is left alone stands for its fields.
std::vector<std::string> DrawnFields();
struct LeftAlone {
  std::string field, why;
};
std::vector<LeftAlone> FieldsLeftAlone();

}  // namespace twofold::plan::test
