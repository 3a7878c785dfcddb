// From what the ranks handed back to the report.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

// The records of a run. Traced are the ranks that the spec asks for (IsTraced); of more than kListedRanks, those alone that share no
// record with a lower one. INTERNAL where a record cannot be parsed, or where a run ended well and a rank left none; ranks of one that
// failed may have left none, and are not among them.
absl::StatusOr<RankRecords> ReadRecords(const spec::Spec& spec, const RunResult& result);

struct RunFacts {
  std::string_view fabric;  // its name
  bool predicted = false;
  int world_size = 1;
  int64_t training_samples = 0;      // that an epoch goes through; 0: unknown
  std::string device;                // what it ran on, in words
  double peak_flops_per_second = 0;  // of one rank's device; 0: unknown
  report::Load calibration = {};     // of a prediction: how loaded the machine was when its kernels were calibrated; no fields: not known
};

// Step times, losses, collectives and kernels are rank 0's (synchronous training: the ranks meet in every
// step). The median is over the steps after train.warmup_steps, or over all where there are no more than
// those; a note says so. The interval: predicted, the median times the widest of the ranks' uncertainties;
// measured, percentiles 10 and 90. How loaded the machine was is what the ranks' records say, of a prediction what `facts` do.
report::Report Assemble(const spec::Spec& spec, const RunFacts& facts, const RunResult& result,
                        const RankRecords& records);

// OK, or what a failed run's status stands for.
report::Outcome OutcomeOf(const absl::Status& status);

// The q-quantile, q in [0, 1], with linear interpolation between ranks; 0 of nothing.
double Quantile(std::vector<double> values, double q);

}  // namespace twofold
