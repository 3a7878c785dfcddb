// The least time of a step of a pipeline whose stages' work is known: the longest path through the schedule.
//
// Each stage runs its actions in the schedule's order (strategies/pipeline/schedule.h). An action begins when the one
// before it on its stage has ended and its message has come, which is no earlier than its sender's action has ended and
// so many seconds later. In a run both wait for more: for messages that share links, and for earlier sends. So by
// induction over the actions, none begins earlier in a run than here, if none takes less time there.
//
// What an action gathers first, its stage may gather while it waits for the message, but not before the action ahead of
// it has ended: communication follows what compute has been given. So there are two such times: one counts from the
// message, and one from the action before.
//
// Steps repeat, and a step lasts from the beginning of stage 0's last action to that of the next step's: stage 0 ends a
// micro-batch's way through the pipeline, does the update and begins the next step. `around` says what it takes alone
// from there to the end of the next step's first action. No other stage can do anything for the next step before that,
// because what it gets comes from there.
#pragma once

#include <vector>

#include "strategies/pipeline/schedule.h"

namespace twofold::plan {

struct ChunkTimes {
  double forward = 0;
  // Of the first backward pass of a step, which writes gradients, and of the later ones, which add to them.
  double backward[2] = {0, 0}, weights[2] = {0, 0};
  double input = 0;
};

struct StageTimes {
  std::vector<ChunkTimes> chunks;  // from the moment when the action's message has come and its stage is free
  // From the end of the action before it, with what the stage may do before the message comes: it gathers parameters.
  // Empty: there is no such thing.
  std::vector<ChunkTimes> whole = {};
  double to_next = 0;  // seconds of a message to the next stage and back from it; the last stage's: to the first
};

// Seconds.
double LongestPath(pipeline::Schedule schedule, const pipeline::PipelineShape& shape,
                   const std::vector<StageTimes>& stages, double around);

// The same, or less, for less work: for each stage, the way there and back of one micro-batch and all of its own work.
//   max over s of  sum_{j < s} (F_j + B_j)  +  m sum_chunks (F_s + B_s)
// With the zero bubble, B_j is I_j, the last s + 1 of a later stage's W_s are left out since they follow its last
// message, and W_0 is added: a step begins with it.
// This does not count what stage 0 does between steps.
double QuickPath(pipeline::Schedule schedule, const pipeline::PipelineShape& shape,
                 const std::vector<StageTimes>& stages);

}  // namespace twofold::plan
