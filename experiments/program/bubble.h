// How much of a pipeline's time is bubble: the time that compute streams idle between the actions of their schedules, for want of
// what other stages send, over the time from a step's first action to its last.
//
// Of one traced step, let T be the time from the first operation of any action at any rank to the last operation of any action, and
// W_s the time that stage s spends in actions, each from its first operation to its last (whatever it waits for in between: tensor
// parallelism's messages are not the pipeline's). The fraction is 1 - (W_1 + ... + W_p) / (p T), with W_s the mean over the stage's
// traced ranks, and of several traced steps their mean. Where all stages' actions take as long and messages take no time it is
// the closed form of the schedule (strategies/pipeline/schedule.h): (p - 1) / (m + p - 1) for GPipe and 1F1B.
#pragma once

#include "core/proto/spec.pb.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

// 0 without a pipeline, and where nothing was traced.
double BubbleFraction(const spec::Spec& spec, const RankRecords& records);

}  // namespace twofold
