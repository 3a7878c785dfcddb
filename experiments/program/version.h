// The text of `twofold --version`.
#pragma once

#include <string>

namespace twofold {

// Version, commit, compiler, and the fabrics and devices of this build and machine. Looks for GPUs.
std::string VersionText();
std::string VersionName();  // "twofold 0.1"

}  // namespace twofold
