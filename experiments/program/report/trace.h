// The time line in Chrome's trace event format, which Perfetto (ui.perfetto.dev) opens.
#pragma once

#include <string>

#include "experiments/program/report/rank_records.h"

namespace twofold {

// A process per traced rank ("rank 0"; of more than kListedRanks that share a time line "rank 0 and 1023 like it"), a thread per stream ("compute" first, then by name), a complete event ("X")
// per span with its bytes, and a counter ("C") per memory sample. Times are microseconds, to the nanosecond,
// since the earliest rank's trace began. Spans whose times are not finite are left out; one that ends before
// it starts lasts 0.
std::string TraceJson(const RankRecords& records);

}  // namespace twofold
