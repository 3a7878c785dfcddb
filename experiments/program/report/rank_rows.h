// The rows of a report's ranks: one row each. With more than kListedRanks ranks, equal ranks share a row, with the
// ranges of these ranks.
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/proto/report.pb.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

void AddRankRows(const RankRecords& records, report::Report& out);

// Checks a report that was read: ranks of the world, ascending, each in at most one row. Errors name the field.
absl::Status CheckRankRows(const report::Report& report);

// By rank of the world; nullptr if a rank has no row. The report's rows must be valid.
std::vector<const report::Rank*> RowsByRank(const report::Report& report);

// Ascending ranks as few arithmetic progressions: [0, 1, 2, 3] is one, [0, 1, 8, 9, 16, 17] are two of stride 8.
std::vector<report::RankRange> RangesOf(std::span<const int64_t> ranks);

}  // namespace twofold
