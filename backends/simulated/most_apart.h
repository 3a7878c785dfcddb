// How far apart ranks of one class may be, so that one of them still stands for all.
//
// Ranks of a class may end a communication at different times, because of their places in the network. The slowest then
// counts for all, which makes ranks late (SimulatedWorld::late). If some rank is late by more than a share of the whole
// time, all ranks are run one by one after all, unless there are more than kMostRunAfterAll. The share is
// folding_error, and at least kMostApart of more ranks than kMostRunOneByOne.
#pragma once

#include <algorithm>
#include <limits>

#include "core/proto/spec.pb.h"

namespace twofold {

inline constexpr int kMostRunOneByOne = 1024, kMostRunAfterAll = 4096;
inline constexpr double kMostApart = 0.005;

// The share. Infinity: ranks may be late by any.
inline double MostApart(const spec::Simulated& simulated, int world_size) {
  if (simulated.folding() == spec::Simulated::ON || world_size > kMostRunAfterAll)
    return std::numeric_limits<double>::infinity();
  return std::max(simulated.folding_error(), world_size > kMostRunOneByOne ? kMostApart : 0);
}

}  // namespace twofold
