#include "experiments/program/cli/notes.h"

#include <set>

#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/cli/output.h"

namespace twofold {

void AddNotesOption(const Command& command, std::string& shown) {
  command.AddOption("--notes=HOW", shown, "how to print notes: short, full or none; reports have all of their text")
      .OneOf({"short", "full", "none"})
      .ShowDefault();
}

std::string NotesText(const std::vector<std::string>& notes, const std::string& shown) {
  if (shown == "none") return "";
  const bool full = shown == "full" || HowVerbose() == Verbosity::kVerbose;
  std::set<std::string> told;
  std::string text;
  int64_t shortened = 0;
  for (const std::string& note : notes) {
    const std::string line = full ? note : Brief(note);
    if (!told.insert(line).second) continue;
    if (line.size() < note.size()) ++shortened;
    StrAppend(&text, "note: ", line, line.size() < note.size() ? " ..." : "", "\n");
  }
  if (shortened > 0) StrAppend(&text, Counted(shortened, "note"), " shortened: --notes=full prints them whole\n");
  return text;
}

}  // namespace twofold
