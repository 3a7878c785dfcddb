// Text in lines of a terminal's width.
#pragma once

#include <cstddef>
#include <string>

namespace twofold {

// Columns of the terminal that stdout is, else the variable COLUMNS, else 80; from 40 to 120.
size_t TerminalWidth();

// `text` in lines of at most `width` columns. The first line begins at column `first`, which earlier output may have
// reached; the others begin at column `indent`. Words longer than a line stay whole. Ends without a newline.
std::string Filled(const std::string& text, size_t width, size_t first, size_t indent);

// A text of paragraphs and indented lines. Lines that begin in the first column are joined into paragraphs and filled;
// a line that begins with a word such as "Examples:" or "Exit status:" begins one of its own. Indented lines
// stay lines: of one that is too long ("  name   text"), the second column moves to the left or is broken, and commands
// are never broken.
std::string Wrapped(const std::string& text, size_t width);

}  // namespace twofold
