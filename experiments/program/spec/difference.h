// In what two specs differ.
#pragma once

#include <string>
#include <vector>

#include "core/proto/spec.pb.h"

namespace twofold {

// The names of the fields of Spec ("model", "train", "fabric", ...) that are not the same in both, in their order. Where
// checkpoints are kept is no difference: in the run's folder, unless it was said.
std::vector<std::string> DifferingBlocks(const spec::Spec& a, const spec::Spec& b);

}  // namespace twofold
