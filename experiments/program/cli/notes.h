// The option --notes, which says how a report's notes are printed.
#pragma once

#include <string>

#include "experiments/program/cli/command_line.h"
#include "experiments/program/cli/note_text.h"

namespace twofold {

// Adds --notes=short|full|none. `shown`: what it says.
void AddNotesOption(const Command& command, std::string& shown);

}  // namespace twofold
