// A run's folder: what came out of it, in files that people and tools read.
//
//   report.json       the report, every field present
//   steps.csv         a line per step                       memory.csv   the memory time line of every traced rank (memory_at_device:
//                                                                        whose time)
//   collectives.csv   a line per collective of rank 0       trace.json   the time line, for Perfetto
//   validation.csv    a line per validation                              (with trace.enabled alone)
//   spec.textproto    the whole spec: `twofold run DIR/spec.textproto` repeats the run
//
// The same arguments give the same bytes.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

inline constexpr int64_t kReportSchemaVersion = 1;

// Writes the folder, making it where it is missing; files that are there are replaced, each at once,
// report.json last; a trace.json of another run goes where this one has none. A report without a schema version gets this one's. Errors name the path that could not be
// written and why.
absl::Status WriteReport(const std::string& folder, const report::Report& report, const spec::Spec& spec,
                         const RankRecords& records);

// Reads report.json of a folder. Errors name the file, and the field where one is wrong, missing or out of range.
absl::StatusOr<report::Report> ReadReport(const std::string& folder);
// Likewise spec.textproto, as it stands there.
absl::StatusOr<spec::Spec> ReadSpecOf(const std::string& folder);

}  // namespace twofold
