#include "core/base/suggestion.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

struct Distance {
  size_t whole, start;  // edit distance to the whole text, and to its nearest prefix
};

// Edit distance (insertions, deletions, replacements; Wagner and Fischer 1974, and neighbours that are exchanged count
// once: optimal string alignment). Keeps two rows.
Distance EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1), above, before;  // before: the one above `above`
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return {.whole = row.back(), .start = *std::min_element(row.begin(), row.end())};
}

using Near = std::vector<std::pair<size_t, std::string>>;  // names with their distances

}  // namespace

std::string Suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string wanted = absl::AsciiStrToLower(std::string(name.substr(0, 64)));
  Near near, alike_at_first;
  for (const std::string& candidate : known) {
    const std::string lower = absl::AsciiStrToLower(candidate);
    const Distance distance = EditDistance(wanted, lower);
    const bool part = wanted.size() >= 3 && lower.find(wanted) != std::string::npos;
    if (distance.whole <= (wanted.size() + 2) / 3 || part) near.emplace_back(distance.whole, candidate);
    if (distance.start <= wanted.size() / 4) alike_at_first.emplace_back(distance.start, candidate);
  }
  if (near.empty()) near = std::move(alike_at_first);
  const std::string all = StrCat("known: ", absl::StrJoin(known, ", "));
  if (near.empty()) return StrCat("; ", all);
  std::sort(near.begin(), near.end());
  near.resize(std::min<size_t>(near.size(), 3));
  return StrCat("; did you mean ",
                absl::StrJoin(near, " or ", [](std::string* out, const auto& entry) { StrAppend(out, entry.second); }),
                "? (", all, ")");
}

}  // namespace twofold
