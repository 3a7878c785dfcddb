// Files that a spec names: a path that does not exist from the working directory on may lie beside the spec.
#pragma once

#include <string>

#include "core/proto/spec.pb.h"

namespace twofold {

// Turns such paths of clusters and device profiles into ones that can be opened. `file`: the spec's.
void FindFilesBesideSpec(spec::Spec& spec, const std::string& file);

}  // namespace twofold
