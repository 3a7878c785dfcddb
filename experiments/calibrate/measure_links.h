// Times what ranks of one machine send each other.
#pragma once

#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/run/rank_context.h"

namespace twofold::calibrate {

inline constexpr Bytes kMessage = MiB(8);
inline constexpr Bytes kCheckSizes[] = {KiB(64), MiB(1), MiB(4), MiB(16)};

// Rows of what MeasureLinks returns.
struct LinkRows {
  static constexpr size_t kLatency = 0;    // an 8-byte all-reduce
  static constexpr size_t kOneCopier = 1;  // kMessage from rank 0 to rank 1, the others idle; empty on other ranks
  static constexpr size_t kAllCopy = 2;    // an all-to-all: every rank copies kMessage, all at once
  static constexpr size_t kAllReduce = 3;  // then one row for each of kCheckSizes: an all-reduce of that many bytes
  static constexpr size_t kAllGather = kAllReduce + std::size(kCheckSizes);  // likewise, bytes of the whole output
  static constexpr size_t kRows = kAllGather + std::size(kCheckSizes);
};

// Returns Pack(samples), a sample a round. The world has two ranks or more.
std::string MeasureLinks(RankContext& ctx, int rounds);

}  // namespace twofold::calibrate
