// Completion of command lines, as scripts of shells.
#pragma once

#include <string>

#include "experiments/program/cli/command_text.h"

namespace twofold {

// Each completes commands, options, and the values that CompletesBy tells of.
std::string BashCompletion(const CommandText& root);
std::string ZshCompletion(const CommandText& root);
std::string FishCompletion(const CommandText& root);

}  // namespace twofold
