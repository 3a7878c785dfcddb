// One line on stderr that changes while long work goes on, if stderr is a terminal.
#pragma once

#include <string>

namespace twofold {

bool HasStatusLine();                          // stderr is a terminal, and nobody asked for --quiet
void ShowStatusLine(const std::string& text);  // in place of the line before
void ClearStatusLine();                        // before anything else is printed

// What long work is doing: the status line on a terminal; elsewhere, as in a log, a message every ten seconds. Not with
// --quiet.
void TellProgress(const std::string& text);

}  // namespace twofold
