// The bubble of a pipeline: the time that compute streams idle between the actions of their schedules, waiting for
// messages of other stages, divided by the time from a step's first action to its last.
//
// For one step, let T be the time from the first operation of any action on any rank to the last operation of
// any action. Let W_s be the time that stage s spends in actions, each from its first operation to its last. Waits
// within an action count as work: messages of tensor parallelism are not the pipeline's. The fraction is 1 - (W_1 + ...
// + W_p) / (p T), with W_s the mean over the stage's traced ranks. With several traced steps it is their mean. If all
// stages' actions take equally long and messages take no time, it equals the closed form of the schedule
// (strategies/pipeline/schedule.h): (p - 1) / (m + p - 1) for GPipe and 1F1B.
//
// A prediction of synchronous training without a trace has these times of all ranks, for its steady steps. There an
// action begins when the stream could begin it, which may be before its first operation does.
#pragma once

#include <utility>

#include "core/proto/spec.pb.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

// 0 without a pipeline; also, without a trace, for a measurement and for elastic or asynchronous training. `steady`:
// the steps that count, as indices into the records' steps: from the first on, until before the second.
double BubbleFraction(const spec::Spec& spec, const RankRecords& records, std::pair<int, int> steady);

}  // namespace twofold
