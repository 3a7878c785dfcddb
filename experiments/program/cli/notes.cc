#include "experiments/program/cli/notes.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/cli/note_names.h"
#include "experiments/program/cli/output.h"

namespace twofold {

std::string ShortNote(const std::string& note) {
  constexpr size_t kLeast = 40;
  size_t end = note.size();
  for (const std::string_view details : {"; ", ". ", " (", ": "}) end = std::min(end, note.find(details, kLeast));
  return note.substr(0, end);
}

void AddNotesOption(const Command& command, std::string& shown) {
  command.AddOption("--notes=HOW", shown, "how to print notes: short, full or none; reports have all of their text")
      .OneOf({"short", "full", "none"})
      .ShowDefault();
}

std::string NoteTag(const std::string& note) {
  const std::string name(NoteName(note));
  return name == kOtherNote ? "" : StrCat(" [", name, "]");
}

std::string NotesText(const std::vector<std::string>& notes, const std::string& shown) {
  if (shown == "none") return "";
  const bool full = shown == "full" || HowVerbose() == Verbosity::kVerbose;
  std::set<std::string> told;
  std::string text;
  int64_t shortened = 0;
  for (const std::string& note : notes) {
    const std::string line = full ? note : ShortNote(note);
    if (!told.insert(line).second) continue;
    if (line.size() < note.size()) ++shortened;
    StrAppend(&text, "note", full ? NoteTag(note) : "", ": ", line, line.size() < note.size() ? " ..." : "", "\n");
  }
  if (shortened > 0) StrAppend(&text, Counted(shortened, "note"), " shortened: --notes=full prints them whole\n");
  return text;
}

}  // namespace twofold
