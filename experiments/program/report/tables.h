// The report's tables as CSV (RFC 4180 quoting, "\n" line ends): a header line, then one line per row. Numbers are in
// their shortest exact form; values that are not finite are empty.
#pragma once

#include <string>
#include <vector>

#include "core/proto/report.pb.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

// step (from 0),seconds,loss,exposed_communication_seconds; the loss is empty if the host did not read it, or if it is
// not finite. With a codec also bytes_before_codec,bytes_after_codec
std::string StepsCsv(const report::Report& report);
// The losses that the host read, in the order of the steps.
std::vector<double> LossesRead(const report::Report& report);
// step (done before it),loss,accuracy,perplexity,seconds; values that a model does not have are empty
std::string ValidationCsv(const report::Report& report);
// rank,block,<a column per expert>: how many choices the routers of mixtures without capacities made in the last step,
// by rank and by block of the model. Empty if there are none.
std::string RoutingCsv(const RankRecords& records);
std::string CollectivesCsv(const report::Report& report);  // operation,group,count,bytes,seconds; as rank 0 saw them

// rank,time,<a column per category>,live,reserved of traced ranks: bytes, and seconds since the earliest trace of any
// rank began.
std::string MemoryCsv(const RankRecords& records);

// When the earliest of the ranks' traces began, on the ranks' clock. Times of spans and samples are relative to their
// own rank's trace.
double TraceOrigin(const RankRecords& records);

}  // namespace twofold
