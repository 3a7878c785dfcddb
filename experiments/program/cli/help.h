// The text of --help.
#pragma once

#include <cstddef>
#include <string>

#include "experiments/program/cli/command_text.h"

namespace twofold {

// In lines of at most `width` columns, commands of examples excepted.
std::string HelpText(const CommandText& command, size_t width);
// "twofold topology show [OPTIONS] CLUSTER"
std::string UsageText(const CommandText& command);
// "-b, --minbytes=BYTES"
std::string OptionNames(const OptionText& option);
// What the option does, with its default and whether it is required.
std::string OptionHelp(const OptionText& option);
// Headings, in the order of their first members.
std::vector<std::string> OptionGroups(const CommandText& command);
std::vector<std::string> CommandGroups(const CommandText& command);

}  // namespace twofold
