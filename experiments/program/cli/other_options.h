// What launchers and training frameworks call options, and what they are called here.
#pragma once

#include <string>
#include <vector>

namespace twofold {

// For an option that a command does not have: "; here it is --ranks=N, the number of ranks in all", or "; it is a field
// of the spec: --set=parallel.tp=V" if the command has --set. `known`: the command's options, as in "--ranks". Empty if
// nobody is known to call anything so.
std::string OtherOption(const std::string& name, const std::vector<std::string>& known);

}  // namespace twofold
