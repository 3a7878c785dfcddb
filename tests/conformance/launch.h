// Runs a command to its end.
#pragma once

#include <string>
#include <vector>

namespace twofold::conformance {

// Starts command[0], found in PATH, with the environment and streams of this process, and kills it if it takes far too
// long. Returns its exit status; 128 + signal, as in a shell, if a signal ended it; or 127, with a line on stderr, if
// it could not be started.
int RunToItsEnd(const std::vector<std::string>& command);

}  // namespace twofold::conformance
