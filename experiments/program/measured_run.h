// The report of a run that another program did and traced.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/import/to_record.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

struct MeasuredRun {
  report::Report report;
  RankRecords records;
  spec::Spec spec;  // the given one; else only a name
};

struct MeasuredRunOptions {
  ImportOptions import;
  std::string name;
  // The spec of the same job, resolved: what the traces do not say. Without it, throughput and flops are 0.
  std::optional<spec::Spec> spec;
};

// Of one or more traces, one for each rank that was traced, in the order in which ranks count if no trace says its
// rank. Step times, kernels and collectives are the lowest rank's. Waiting is found by comparing ranks (step_time.h),
// so it is known only if several are given. Errors name the file.
absl::StatusOr<MeasuredRun> MeasuredRunOf(std::vector<RankTrace> traces, const MeasuredRunOptions& options);

}  // namespace twofold
