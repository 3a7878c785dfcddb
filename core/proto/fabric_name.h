// The name of the fabric that a spec chooses, as in --fabric and in the table of backends.
#pragma once

#include <string>

#include "core/proto/spec.pb.h"

namespace twofold {

// "in_memory" if the spec names none.
std::string FabricName(const spec::Spec& spec);

}  // namespace twofold
