#include "experiments/program/cli/notes.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
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

namespace {

// Notes of one kind that begin alike but for one word.
struct Alike {
  std::string_view kind;
  std::vector<std::string> words;
  size_t at = 0;  // the place of that word, if there are others
  std::vector<std::string> others;
  bool cut = false;

  // Whether another note's beginning belongs here; it is then taken.
  bool Take(std::string_view its_kind, const std::vector<std::string>& its_words) {
    if (its_kind != kind || its_words.size() != words.size()) return false;
    size_t differences = 0, place = 0;
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] != its_words[i]) ++differences, place = i;
    }
    if (differences != 1 || (!others.empty() && place != at)) return false;
    at = place;
    others.push_back(its_words[at]);
    return true;
  }

  std::string Line() const {
    constexpr size_t kNamed = 3;
    std::string line = StrCat("note: ", absl::StrJoin(words, " "), cut ? " ..." : "");
    if (others.empty()) return line;
    const auto end = others.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, others.size()));
    StrAppend(&line, " (also ", absl::StrJoin(others.begin(), end, ", "));
    if (others.size() > kNamed) StrAppend(&line, " and ", others.size() - kNamed, " more");
    return line + ")";
  }
};

std::string ShortNotesText(const std::vector<std::string>& notes) {
  std::set<std::string> told;
  std::vector<Alike> lines;
  int64_t shortened = 0;
  for (const std::string& note : notes) {
    const std::string line = ShortNote(note);
    if (!told.insert(line).second) continue;
    const bool cut = line.size() < note.size();
    if (cut) ++shortened;
    const std::string_view kind = NoteName(note);
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    const bool taken = kind != kOtherNote && std::any_of(lines.begin(), lines.end(), [&](Alike& alike) {
                         return alike.cut == cut && alike.Take(kind, words);
                       });
    if (!taken) lines.push_back({.kind = kind, .words = words, .cut = cut});
  }
  std::string text;
  for (const Alike& line : lines) StrAppend(&text, line.Line(), "\n");
  if (shortened > 0) StrAppend(&text, Counted(shortened, "note"), " shortened: --notes=full prints them whole\n");
  return text;
}

}  // namespace

std::string NotesText(const std::vector<std::string>& notes, const std::string& shown) {
  if (shown == "none") return "";
  if (shown != "full" && HowVerbose() != Verbosity::kVerbose) return ShortNotesText(notes);
  std::set<std::string> told;
  std::string text;
  for (const std::string& note : notes) {
    if (told.insert(note).second) StrAppend(&text, "note", NoteTag(note), ": ", note, "\n");
  }
  return text;
}

}  // namespace twofold
