// The breakdown of the traced steps' time on rank 0, from its spans; a comparison uses these parts.
//
//   traced step = kernels + exposed communication + the host's own
//   exposed communication = collectives + waiting for other ranks + other waits (transfers, untraced work)
//
// Exposed communication is the time that the compute stream was stalled, as the recorder measures it. Each call's span
// says how much of the stall it caused (core/run/trace.h). The part of a collective until the last rank arrives is
// waiting. A prediction knows it. In a measurement it is taken as the time by which the call lasted longer than on the
// rank where it was shortest. That needs no common clock (that rank arrived last and waited for nobody).
#pragma once

#include "core/proto/report.pb.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

// Sets traced_step_seconds, waiting_seconds and exposed_other_seconds of `out`, and exposed_seconds of its collectives.
// Sets nothing if rank 0 was not traced. `out` has rank 0's collectives. Groups of the same name on several ranks are
// taken as one group if their calls agree.
void AddStepTime(const RankRecords& records, int64_t traced_steps, report::Report& out);

}  // namespace twofold
