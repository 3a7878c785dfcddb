// The time line in Chrome's trace event format, which Perfetto (ui.perfetto.dev) opens.
#pragma once

#include <string>

#include "experiments/program/report/rank_records.h"

namespace twofold {

// One process per traced rank ("rank 0"; with more than kListedRanks ranks, those that share a time line are "rank 0
// and 1023 like it"). One thread per stream ("compute" first, then by name). One complete event ("X") per span with its
// bytes, one counter ("C") per memory sample. Times are microseconds, to the nanosecond, since the earliest rank's
// trace began. Spans whose times are not finite are left out; a span that ends before it starts lasts 0.
std::string TraceJson(const RankRecords& records);

}  // namespace twofold
