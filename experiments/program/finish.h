// From what the ranks of a run returned to its report and their records.
#pragma once

#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"
#include "experiments/program/report/rank_records.h"
#include "experiments/program/training_data.h"

namespace twofold {

struct Finished {
  report::Report report;
  RankRecords records;
};
// Records that cannot be read make the report's outcome a failure, and a note says why.
Finished Finish(const spec::Spec& spec, const Fabric& fabric, const TrainingData& data, RunResult result);

}  // namespace twofold
