// The report's tables as CSV (RFC 4180 quoting, "\n" line ends): a header line, then a line per row. Numbers
// are as short as they can be without changing; what is not finite is empty.
#pragma once

#include <string>

#include "core/proto/report.pb.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

std::string StepsCsv(
    const report::Report& report);  // step (from 0),seconds,loss,exposed_communication_seconds
// step (done before it),loss,accuracy,perplexity,seconds; what a model has not is empty
std::string ValidationCsv(const report::Report& report);
std::string CollectivesCsv(
    const report::Report& report);  // operation,group,count,bytes,seconds; as rank 0 saw them

// rank,time,<a column per category>,live,reserved of traced ranks: bytes, and seconds since the earliest rank's trace began.
std::string MemoryCsv(const RankRecords& records);

// When the earliest of the ranks' traces began, on the ranks' clock. Spans and samples count from their own
// rank's.
double TraceOrigin(const RankRecords& records);

}  // namespace twofold
