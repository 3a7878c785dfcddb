// Ranks as messages list them.
#pragma once

#include <span>
#include <string>

namespace twofold {

// "rank 3", "ranks 0, 2", "ranks 0-5, 7" of ranks in ascending order; "no rank" of none.
std::string RankList(std::span<const int> ranks);

}  // namespace twofold
