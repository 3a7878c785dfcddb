// A report's notes on stdout: each once, short unless somebody wants to read them whole.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/cli/command_line.h"

namespace twofold {

// Adds --notes=short|full|none. `shown`: what it says.
void AddNotesOption(const Command& command, std::string& shown);

// The note up to where it goes into details, but no less than says what it is about.
std::string ShortNote(const std::string& note);

// " [folded-ranks]", the name of the note's kind (note_names.h); nothing if it has none.
std::string NoteTag(const std::string& note);

// "note: ..." lines. short: the beginning of each note, up to where it goes into details, and a last line that says how
// to read the rest. full, which --verbose means, too: their kinds and their text. Equal notes are printed once.
std::string NotesText(const std::vector<std::string>& notes, const std::string& shown);

}  // namespace twofold
