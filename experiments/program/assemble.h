// Assembles the report from the results that the ranks return.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

// The records of a run. The ranks that the spec asks for are traced (IsTraced). With more than kListedRanks ranks, a
// rank is traced only if it shares its record with no lower rank. INTERNAL if a record cannot be parsed, or if the run
// succeeded and a rank left no record. If the run failed, ranks without a record are left out.
absl::StatusOr<RankRecords> ReadRecords(const spec::Spec& spec, const RunResult& result);

struct RunFacts {
  std::string_view fabric;  // its name
  bool predicted = false;
  int world_size = 1;
  int64_t training_samples = 0;      // per epoch; 0: unknown
  std::string device;                // what it ran on, as text
  double peak_flops_per_second = 0;  // of one rank's device; 0: unknown
  // of a prediction: the machine's load while its kernels were calibrated; no fields: unknown
  report::Load calibration = {};
};

// Step times, losses, collectives and kernels are rank 0's (training is synchronous: the ranks meet in every step). The
// median is over the steps after train.warmup_steps, or over all steps if there are no more than that; a note then says
// so. The interval of a prediction is the median times the widest of the ranks' uncertainties. The interval of a
// measurement is percentiles 10 and 90. The machine's load comes from the ranks' records for a measurement, from
// `facts` for a prediction.
report::Report Assemble(const spec::Spec& spec, const RunFacts& facts, const RunResult& result,
                        const RankRecords& records);

// The outcome for a run's status: OK, or the kind of failure.
report::Outcome OutcomeOf(const absl::Status& status);

// The q-quantile, q in [0, 1], with linear interpolation between ranks; 0 if `values` is empty.
double Quantile(std::vector<double> values, double q);

}  // namespace twofold
