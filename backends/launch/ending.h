// How a run ended, as each of its processes tells the launcher that wants to know.
//
// A launcher sees exit statuses at most, and mpirun's parent only one for all ranks. But a process that was lost by
// itself and one that ended because the run failed must be told apart, and so must a lost rank and running out of
// memory. So a launcher may set TWOFOLD_ENDINGS to a folder. Each process writes there how the run ended, as soon as it
// knows. Those that were lost write nothing.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"

namespace twofold {

inline constexpr char kEndingsVariable[] = "TWOFOLD_ENDINGS";

// Call it when the run has ended for this process, with the codes of core/base/errors.h. Does nothing if no launcher
// asked. Failures to write are ignored: the rank then counts as lost.
void LeaveEnding(int rank, const absl::Status& status);

// By rank: what was left in `folder`.
std::map<int, absl::Status> ReadEndings(const std::string& folder);

}  // namespace twofold
