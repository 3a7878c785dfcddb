// Limit on the number of open files, connections included, of this process.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace twofold {

// For a process that serves many others: raises the soft limit as far as the hard limit allows. Returns
// FAILED_PRECONDITION if that leaves no room for `more` files beside the open ones. The message states both numbers:
// "`who` may have 1024 files open, and `what` needs 1100; ...".
absl::Status AllowOpenFiles(int64_t more, std::string_view who, std::string_view what);

}  // namespace twofold
