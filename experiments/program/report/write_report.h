// A run's folder: its results, in files for people and tools.
//
//   report.json       the report, every field present
//   steps.csv         one line per step
//   collectives.csv   one line per collective of rank 0
//   validation.csv    one line per validation
//   memory.csv        the memory time line of every traced rank (memory_at_device: whose time)
//   simulate.csv      what a simulation itself cost (simulation_costs.h); not of measured runs
//   trace.json        the time line, for Perfetto (with trace.enabled alone)
//   spec.textproto    the whole spec: `twofold run DIR/spec.textproto` repeats the run
//
// The same arguments give the same bytes, except in simulate.csv.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

inline constexpr int64_t kReportSchemaVersion = 1;

// Writes the folder, creating it if missing. Existing files are replaced atomically, report.json last. A trace.json,
// simulate.csv or links.csv of another run is removed if this run has none. A report without a schema version gets the
// current one. Errors name the path that could not be written and the reason.
absl::Status WriteReport(const std::string& folder, const report::Report& report, const spec::Spec& spec,
                         const RankRecords& records, const std::vector<RunResult::Cost>& costs = {},
                         const LinkLoads& links = {});

// The text of report.json.
std::string ReportText(const report::Report& report);
nlohmann::ordered_json ReportJson(const report::Report& report);  // the same as JSON

// Moves the files that WriteReport wrote from one folder to another, which is created if missing and whose files are
// replaced. Errors name the path and the reason.
absl::Status MoveReport(const std::string& from, const std::string& to);

// Reads report.json of a folder. Errors name the file, and the field where one is wrong, missing or out of range.
absl::StatusOr<report::Report> ReadReport(const std::string& folder);
// Likewise reads spec.textproto, unchanged.
absl::StatusOr<spec::Spec> ReadSpecOf(const std::string& folder);

}  // namespace twofold
