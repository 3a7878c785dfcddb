// Lower bounds on what a simulation will say of a layout: its step time and its memory.
//
// A step of the simulation takes at least as long as the longest path through its pipeline (pipeline_bound.h) with
// stages whose actions take what their rank's own work takes (rank_times.h): the operations that it must run, by the
// cost model of the simulation, and the communication that they wait for, as if it were alone on the network. It also
// takes at least as long as the host of stage 0 needs to launch its operations. Operations are slowed beside
// communication as in the simulation, which follows the program's order. Waiting for links that are shared, for other
// replicas and for messages only adds to that. There are two such bounds:
//
//   quick  composes a stage from pieces (stage_pieces.h). A piece is a stage of a pipeline of three, with as many
//   blocks
//          each as the model takes to repeat itself, without replicas. What is timed of it is what one micro-batch
//          takes on it. Since each is timed with nothing else in flight, a stage with n times the blocks takes at least
//          n times as long. Pieces are kept by their spec, so that the many layouts that share one pay once. Neither
//          what replicas exchange nor the update are in it. Where operations are slowed (StagePieces::AreSlowed), that
//          is by cp's messages alone: what else is in flight may come first and slow them less, and so much is taken
//          off.
//   tight  times stage 0 as it is, with its replicas' communication and the update; and those of the others that gather
//          or reduce in every micro-batch (ZERO_2, ZERO_3, HYBRID_SHARD). A replay of three micro-batches each.
//
// Ranks wait for the slowest of many devices (fabric.simulated.noise, sim/spread.h). A rank of the simulation has a
// time t and a standard deviation d, among the ranks that it stands for. L = t + k d, when one is there that is k
// deviations late, follows from sums and maxima alone, as t does where nothing differs. That holds for any k up to K,
// the least expectation of the slowest among the ranks of a group:
//   computing w  adds (1 + k s) w; s is the device's deviation
//   waiting for  something with L': max(L, L') at least. t becomes t', and d - (t' - t) / m is left of d; m is the
//                expectation of the slowest of the group that met last, and k is no more
//   meeting      of n ranks that come at equal times, the slowest of which is m_n deviations late, with a deviation of
//                s_n: t + m_n d + k s_n d, no less than t + k d while m_n >= k (1 - s_n). Along tp, ranks meet in the
//                middle of actions. The difference, for what they have computed since they met or waited, is in
//                bounds, too
// In each step, ranks meet for gradients and for their norm after all that they have computed. So the longest path with
// these times is a lower bound on the step. Before the norm, others may have less to do; so much is taken off. k is 0
// (likeness.h) where ranks of a group do different work or are not equally far apart (experts of uneven load, slowed
// ranks, faults, sites), and where the host has nearly as much to do as the device: who waits for the host is less
// late.
//
// Where a stage's ranks are not as far from each other as another's (stage_kinds.h), pieces have the least of all
// stages. Where a later step sends other gradients than the first ones (compression, 1-bit Adam), quick is also tight.
//
// Steps are taken to be periodic, as those are that a simulation counts (backends/simulated/steady_state.h).
//
// A stage holds at least its parameters, gradients and optimizer state (memory/model_states.h) and, where most
// micro-batches are on their way, what each of them keeps for backward. No less is reserved, so that a layout for which
// this exceeds a device runs out of memory there (least_memory.h).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "backends/host/memory_rules.h"
#include "backends/simulated/least_times.h"
#include "core/proto/framework.pb.h"
#include "experiments/program/plan/least_memory.h"
#include "experiments/program/plan/likeness.h"
#include "experiments/program/plan/rank_times.h"
#include "experiments/program/plan/reserved.h"
#include "experiments/program/plan/stage_pieces.h"

namespace twofold::plan {

class Bounds {
 public:
  // `any`: some layout's spec; all have its model, data, fabric and number of ranks. `samples` must outlive this. Used
  // by one thread.
  static absl::StatusOr<std::unique_ptr<Bounds>> Make(const spec::Spec& any, const Samples& samples);

  struct Quick {
    double seconds = 0;
    int64_t bytes = 0;  // that the fullest stage holds at once
    std::string what;   // most of it: "optimizer_state"
  };
  // `spec` is resolved and valid. With `path`, seconds are those of the longest path, which takes longer to find.
  Quick QuickOf(const spec::Spec& spec, bool path);
  // Seconds. RESOURCE_EXHAUSTED: it runs out of memory. Stages are replayed one after another, until `enough` is
  // reached with quick times for the others.
  absl::StatusOr<double> TightOf(const spec::Spec& spec, double enough = std::numeric_limits<double>::infinity());

  // Exact, of all micro-batches: bytes of the fullest rank (reserved.h). RESOURCE_EXHAUSTED: it runs out of memory.
  absl::StatusOr<int64_t> ReservedBy(const spec::Spec& spec) const {
    return ReservedOf(spec, samples_, has_framework_ ? &framework_ : nullptr);
  }

  Bytes device_memory() const { return rules_.device; }  // of a rank; 0: not bounded
  int64_t pieces() const { return pieces_.size(); }

 private:
  Bounds(const Samples& samples, const host::MemoryRules& rules, std::unique_ptr<LeastTimes> times)
      : samples_(samples), rules_(rules), rules_of_replay_(rules), times_(std::move(times)) {}

  const Samples samples_;
  const host::MemoryRules rules_;
  host::MemoryRules rules_of_replay_;
  framework::Framework framework_;  // other than this program's; else empty
  bool has_framework_ = false;
  const std::unique_ptr<LeastTimes> times_;
  Likeness likeness_{*times_};
  StagePieces pieces_{samples_, rules_, *times_, likeness_};
  LeastMemory memory_{framework_};
};

}  // namespace twofold::plan
