// Notes as lines of text. Defined in notes.cc.
#pragma once

#include <string>
#include <vector>

namespace twofold {

// The note up to where it goes into details, but no less than says what it is about.
std::string ShortNote(const std::string& note);

// " [folded-ranks]", the name of the note's kind (note_names.h); nothing if it has none.
std::string NoteTag(const std::string& note);

// "note: ..." lines. `shown` as --notes says. short: the beginning of each note, those of a kind that differ in one
// word in one line, and a last line that says how to read the rest. full, which --verbose means, too: their kinds and
// their text. Equal notes are printed once.
std::string NotesText(const std::vector<std::string>& notes, const std::string& shown);

}  // namespace twofold
