// The kinds of notes, by name. A kind's name stays, whatever its text becomes, so that programs can look for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twofold {

inline constexpr std::string_view kOtherNote = "other";  // of notes without a kind, such as those of --note

// The name of the note's kind, such as "folded-ranks".
std::string_view NoteName(std::string_view note);
std::vector<std::string> NoteNames(const std::vector<std::string>& notes);

}  // namespace twofold
