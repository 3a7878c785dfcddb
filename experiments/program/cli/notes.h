// A report's notes on stdout: each once, short unless somebody wants to read them whole.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/cli/command_line.h"

namespace twofold {

// Adds --notes=short|full|none. `shown`: what it says.
void AddNotesOption(const Command& command, std::string& shown);

// "note: ..." lines. short: the beginning of each note, up to where it goes into details, and a last line that says how
// to read the rest. full, which --verbose means, too: their text. Equal notes are printed once.
std::string NotesText(const std::vector<std::string>& notes, const std::string& shown);

}  // namespace twofold
