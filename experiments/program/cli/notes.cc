#include "experiments/program/cli/notes.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/cli/output.h"

namespace twofold {
namespace {

// The note up to where it goes into details, but no less than says what it is about.
std::string Short(const std::string& note) {
  constexpr size_t kLeast = 40;
  size_t end = note.size();
  for (const std::string_view details : {"; ", ". ", " (", ": "}) end = std::min(end, note.find(details, kLeast));
  return note.substr(0, end);
}

}  // namespace

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
    const std::string line = full ? note : Short(note);
    if (!told.insert(line).second) continue;
    if (line.size() < note.size()) ++shortened;
    StrAppend(&text, "note: ", line, line.size() < note.size() ? " ..." : "", "\n");
  }
  if (shortened > 0) StrAppend(&text, Counted(shortened, "note"), " shortened: --notes=full prints them whole\n");
  return text;
}

}  // namespace twofold
