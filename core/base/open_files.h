// How many files, connections among them, this process may have open.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace twofold {

// Raises the soft limit as far as the hard one allows, for a process that serves many others. FAILED_PRECONDITION where that leaves no room for
// `more` beside those that are open, saying both numbers: "`who` may have 1024 files open, and `what` needs 1100; ...".
absl::Status AllowOpenFiles(int64_t more, std::string_view who, std::string_view what);

}  // namespace twofold
