// Where the time of the traced steps went, on rank 0: from spans to the parts that a comparison is made of.
//
//   traced step = kernels + exposed communication + the host's own
//   exposed communication = collectives + waiting for other ranks + other waits (transfers, what was not traced)
//
// What is exposed is how long the compute stream was stalled, which the recorder measures; each call's span says how much of that the
// stream stood still for it (core/run/trace.h). Of a collective, the time until the last rank came is waiting. A
// prediction knows it; of a measurement it is taken to be what the call lasted longer than at the rank where it was shortest,
// which needs no common clock (that rank came last and waited for nobody).
#pragma once

#include "core/proto/report.pb.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

// Sets traced_step_seconds, waiting_seconds and exposed_other_seconds of `out`, and exposed_seconds of its collectives. Nothing where rank 0 was not
// traced. `out` has rank 0's collectives; groups of one name at several ranks are taken for one group where their calls agree.
void AddStepTime(const RankRecords& records, int64_t traced_steps, report::Report& out);

}  // namespace twofold
