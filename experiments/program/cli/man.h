// Man pages, in troff's man macros.
#pragma once

#include <string>

#include "experiments/program/cli/command_text.h"

namespace twofold {

// "twofold-topology-show", which stands in section 1.
std::string ManPageName(const CommandText& command);
// `root`: the whole program, for the pages that are named under SEE ALSO. `source`: the program and its version, for
// the page's foot.
std::string ManPage(const CommandText& command, const CommandText& root, const std::string& source);

}  // namespace twofold
