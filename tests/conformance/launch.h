// Runs a command to its end.
#pragma once

#include <string>
#include <vector>

namespace twofold::conformance {

// Starts command[0], found in PATH, with the environment and streams of this process, and ends it where it takes far too long.
// Returns its exit status, that of
// a shell (128 + signal) where a signal ended it, or 127 with a line on stderr where it could not be started.
int RunToItsEnd(const std::vector<std::string>& command);

}  // namespace twofold::conformance
