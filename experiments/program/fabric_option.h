// --fabric=F, checked before the spec is read.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace twofold {

// Refuses a name that is no fabric; the message lists those that this build and machine have. "" is fine: the spec's
// own.
absl::Status CheckFabricOption(const std::string& name);

}  // namespace twofold
