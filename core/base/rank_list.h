// Formats lists of ranks for messages.
#pragma once

#include <span>
#include <string>

namespace twofold {

// Formats ranks in ascending order: "rank 3", "ranks 0, 2", "ranks 0-5, 7". An empty list gives "no rank".
std::string RankList(std::span<const int> ranks);

}  // namespace twofold
