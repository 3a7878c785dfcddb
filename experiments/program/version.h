// What `twofold --version` prints.
#pragma once

#include <string>

namespace twofold {

// Version, commit, compiler, and which fabrics and devices this build and machine have. Looks for GPUs.
std::string VersionText();

}  // namespace twofold
