// Times transfers between the ranks of one machine.
#pragma once

#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/proto/profile.pb.h"
#include "core/run/rank_context.h"
#include "experiments/program/calibrate/samples.h"

namespace twofold::calibrate {

inline constexpr Bytes kMessage = MiB(8);

// Collectives that are measured directly, each at these sizes; one row of samples per collective and size.
inline constexpr Communication::Kind kCollectives[] = {Communication::kAllReduce, Communication::kAllGather,
                                                       Communication::kReduceScatter, Communication::kBroadcast};
inline constexpr Bytes kCollectiveSizes[] = {Bytes(64), KiB(4), KiB(64), KiB(256), MiB(1), MiB(4), MiB(16)};

// Rows of the result of MeasureLinks.
struct LinkRows {
  static constexpr size_t kLatency = 0;     // an 8-byte all-reduce
  static constexpr size_t kOneCopier = 1;   // kMessage from rank 0 to rank 1, the others idle; empty on other ranks
  static constexpr size_t kAllCopy = 2;     // an all-to-all: every rank copies kMessage, all at once
  static constexpr size_t kCollective = 3;  // then the rows of MeasureCollectives
  static constexpr size_t kRows = kCollective + std::size(kCollectives) * std::size(kCollectiveSizes);
};

// Returns Pack(samples), one sample per round. The world must have at least two ranks.
std::string MeasureLinks(RankContext& ctx, int rounds);

// Run by every rank: kCollectives at kCollectiveSizes, size by size, one sample per round.
Samples MeasureCollectives(RankContext& ctx, int rounds);

// Points of a profile from the rows of MeasureCollectives, which start at row `first` of `samples`. Sizes are rounded
// to ones that the ranks can share evenly.
std::vector<profile::MeasuredCollective> CollectivesFrom(const Samples& samples, size_t first, int ranks);

}  // namespace twofold::calibrate
