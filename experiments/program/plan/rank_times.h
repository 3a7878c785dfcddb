// The least that one rank's own work takes, action by action: a replay of the real training code with the times of
// LeastTimes (backends/simulated/least_times.h, backends/replay/times.h).
//
// The figures are those of the last step that is replayed. What an action of the schedule (F, B, I, W) takes is
// counted from a state in which nothing else is in flight, so it is a lower bound whatever came before. Messages of the
// pipeline take no time here: bound.h has them.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "backends/host/memory_rules.h"
#include "backends/simulated/least_times.h"
#include "core/proto/spec.pb.h"
#include "strategies/pipeline/schedule.h"
#include "strategies/trainer.h"

namespace twofold::plan {

struct RankTimes {
  struct OfAction {
    pipeline::Action action;
    // Of the compute stream: from the end of the action before it, and from when its message has come, if that is
    // later.
    double whole = 0, after_message = 0;
    double slowed = 0;    // of these: what operations took longer because of communication beside them
    double launches = 0;  // seconds of the host
    // Seconds of communication among the replicas of its stage, which gather and reduce in streams of their own.
    double gathers = 0, reductions = 0;
    double to_device = 0, to_host = 0;  // seconds of transfers
    // By link beside this rank: seconds for which its communication fills it (LeastTimes::Loads). Not with `places`.
    absl::flat_hash_map<int, double> links = {};
    int64_t kept = 0;  // bytes of activations that it added (forward), its input included
  };
  std::vector<OfAction> actions;  // in the order of the schedule
  // From the beginning of a step's last action to the end of the next step's first one: the last gradients, the update,
  // what the next step waits for. 0 if only one step was replayed.
  double around = 0;
  OfAction outside;  // of actions: the rest of the step
  // Seconds of operations outside of actions until the norm, a single number, is summed.
  double before_meeting = 0;
  double operations = 0;   // seconds of all operations of actions
  double launches = 0;     // seconds of the host for these
  double most_slowed = 1;  // the largest factor by which communication slowed an operation
  int64_t parameters = 0;  // of this rank, whole
  int64_t peak_bytes = 0;  // live
};

struct TimedRank {
  int rank = 0;   // of the spec's world
  int steps = 2;  // to replay; with 1, what comes between steps is not timed
  // The rank of the whole job at each rank of `spec`, if that is a smaller job that stands for several: once for each,
  // and the least time counts. Empty: the same.
  std::vector<std::vector<int>> places = {};
  // Whether communication slows what computes beside it. With `places`, messages between stages do not: those of the
  // whole job differ.
  bool beside = true;
  // What replicas of a stage gather and reduce takes no time, as if there were no replicas.
  bool without_replicas = false;
  // By how many standard deviations the device is slower than the mean one (fabric.simulated.noise; bound.h).
  double deviations = 0;
  int64_t world = 0;  // ranks of the whole job; after all have met, they no longer differ
  // The whole job's groups in place of any group of replicas of `spec`, which has fewer; likewise. Empty: the same.
  std::vector<std::vector<int>> replicas = {};
};

// `spec`: resolved. RESOURCE_EXHAUSTED if its live bytes alone exceed `rules`; any other error is the replayed rank's.
absl::StatusOr<RankTimes> TimeRank(const spec::Spec& spec, const TimedRank& timed, const Samples& samples,
                                   const host::MemoryRules& rules, LeastTimes& times);

}  // namespace twofold::plan
