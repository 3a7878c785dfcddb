#include "core/base/rank_list.h"

#include "core/base/strings.h"

namespace twofold {

std::string RankList(std::span<const int> ranks) {
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last < first + 2) last = first;  // two consecutive ranks are listed, not shown as a range
    StrAppend(&text, first > 0 ? ", " : "", ranks[first]);
    if (last > first) StrAppend(&text, "-", ranks[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace twofold
