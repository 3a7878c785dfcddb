// What a rank's process takes of its device under another framework (docs/frameworks.md).
//
//   allocated = the larger of  peak + held always + held in passes
//                         and  between steps + held always + held in steps
//   reserved  = the first of these, if that is larger, + cached + slack + workspace
//                 + held in steps, whose buffers no cached segment can hold
//                 + what this program's allocator reserves beyond its peak
//   device    = reserved + context + communicators
//
// `peak` and `between steps` are this program's own, to the byte, and the rest is what the framework's file says:
// core/proto/framework.proto. Each rank has a communicator in each of its groups of two or more ranks: all ranks, its
// tensor, context, expert and data-parallel groups, the ranks of one model (if it is split both along tp and pp), each
// neighbour in the pipeline and, at a pipeline's ends with a tied table, the two that hold it.
//
// A job fits if its device has as much without a part of the slack (Slack.when_full), since PyTorch's allocator waits
// for other streams and returns free segments before it gives up.
//
// Assumes: the framework's pools have the slack of the runs that its file was made from. Ignores: when within a pass
// its tensors live: those of passes are there when most is held.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/proto/framework.pb.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/memory/predict.h"

namespace twofold {

// For each kind of `needed` (not bounded), in its order. Absent fields of `f` count nothing.
std::vector<report::FrameworkMemory> FrameworkMemoryOf(const spec::Spec& spec, const framework::Framework& f,
                                                       const MemoryPrediction& needed);

// Number of communicators of a rank.
int64_t Communicators(const spec::Spec& spec, int rank);

// RESOURCE_EXHAUSTED, and what takes most, if a rank takes more than `device` bytes; OK if that is zero.
absl::Status FrameworkFits(const std::vector<report::FrameworkMemory>& memory, const MemoryPrediction& needed,
                           const framework::Framework& f, Bytes device);

}  // namespace twofold
