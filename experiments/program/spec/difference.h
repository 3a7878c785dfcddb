// The differences between two specs.
#pragma once

#include <string>
#include <vector>

#include "core/proto/spec.pb.h"

namespace twofold {

// The names of the fields of Spec ("model", "train", "fabric", ...) that differ, in their order. The checkpoints' path
// is ignored: its default is the run's folder.
std::vector<std::string> DifferingBlocks(const spec::Spec& a, const spec::Spec& b);

}  // namespace twofold
