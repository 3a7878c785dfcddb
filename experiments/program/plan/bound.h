// Lower bounds on what a simulation will say of a layout: its step time and its memory.
//
// A step of the simulation takes at least as long as the longest path through its pipeline (pipeline_bound.h) with
// stages whose actions take what their rank's own work takes (rank_times.h): the operations that it must run, by the
// cost model of the simulation, and the communication that they wait for, as if it were alone on the network. It also
// takes at least as long as the host of stage 0 needs to launch its operations. Operations are slowed beside
// communication as in the simulation, which follows the program's order. Waiting for links that are shared, for other
// replicas and for messages only adds to that. There are two such bounds:
//
//   quick  composes a stage from pieces. A piece is a stage of a pipeline of three, with as many blocks each as the
//          model takes to repeat itself, without replicas. What is timed of it is what one micro-batch takes on it.
//          Since each is timed with nothing else in flight, a stage with n times the blocks takes at least n times as
//          long. Pieces are kept by their spec, so that the many layouts that share one pay once. Neither what replicas
//          exchange nor the update are in it. Where operations are slowed (AreSlowed), that is by cp's messages alone:
//          what else is in flight may come first and slow them less, and so much is taken off.
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
// where ranks of a group do different work or are not equally far apart (experts of uneven load, slowed ranks, faults,
// sites), and where the host has nearly as much to do as the device: who waits for the host may forget its lateness.
//
// Where a stage's ranks are not as far from each other as another's (stage_kinds.h), pieces have the least of all
// stages. Where a later step sends other gradients than the first ones (compression, 1-bit Adam), quick is also tight.
//
// Steps are taken to be periodic, as those are that a simulation counts (backends/simulated/steady_state.h).
//
// A stage holds at least its parameters, gradients and optimizer state (memory/model_states.h) and, where most
// micro-batches are on their way, what each of them keeps for backward. No less is reserved, so that a layout for which
// this exceeds a device runs out of memory there.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "backends/simulated/least_times.h"
#include "core/proto/framework.pb.h"
#include "experiments/program/memory/model_states.h"
#include "experiments/program/plan/layout.h"
#include "experiments/program/plan/pipeline_bound.h"
#include "experiments/program/plan/rank_times.h"
#include "experiments/program/plan/reserved.h"
#include "strategies/models/model.h"

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
  int64_t pieces() const { return static_cast<int64_t>(pieces_.size()); }

 private:
  struct Piece {               // a stage of some blocks, perhaps with an end of the model
    ChunkTimes times, slowed;  // slowed: the part of times that communication beside it costs, at most
    int64_t kept = 0, parameters = 0;
  };
  struct Pieces {
    Piece first, middle, last;
    // The place along cp of the rank that was timed: the slower of the first and the last one, which take so many
    // seconds more or less for a piece.
    int cp = 0;
    double cp_apart = 0;
    double most_slowed = 1;  // the largest factor of an operation
    int64_t blocks = 1;      // of each
    // What one more piece in a stage keeps, and what the model's end keeps beside it. Less than `kept`, in which is
    // what a stage keeps once: messages.
    int64_t kept_more = 0, kept_by_head = 0;
  };
  Bounds(const Samples& samples, const host::MemoryRules& rules, std::unique_ptr<LeastTimes> times)
      : samples_(samples), rules_(rules), rules_of_replay_(rules), times_(std::move(times)) {}
  // By how many deviations a rank's device may be taken to be slower than the mean one (above). `at_most`: ranks of a
  // group.
  double DeviationsOf(const spec::Spec& spec, int64_t at_most);
  bool ReplicasAreAlike(const spec::Spec& spec);            // ranks along tp are equally far from each other
  const std::vector<int>& KindsOf(const spec::Spec& spec);  // KindsOfStages
  std::vector<int> UnlikeStages(const spec::Spec& spec);    // the first of each kind
  const Pieces* PiecesOf(const spec::Spec& spec);           // null: the model has no repeating blocks
  bool AreSlowed(const spec::Spec& spec);                   // pieces
  Pieces MakePieces(const spec::Spec& spec, const spec::Spec& small);
  Piece PieceOf(const RankTimes& times) const;
  struct Stages {
    std::vector<StageTimes> stages;
    // Seconds that actions together may take less: those of the first and of the last micro-batch, which have
    // communication of replicas in flight.
    double less = 0;
  };
  Stages StagesOf(const spec::Spec& spec, const Pieces& pieces, const std::vector<nn::ModelPart>& parts);
  double ReplicasOf(const spec::Spec& spec, int64_t blocks);  // seconds of a micro-batch, of one block
  int64_t BytesOf(const spec::Spec& spec, const Pieces& pieces, const std::vector<nn::ModelPart>& parts,
                  std::string& what);
  // Returns for how many seconds the messages that a stage sends and receives for one action slow what computes.
  double SetMessages(const spec::Spec& spec, std::vector<StageTimes>& stages);
  const std::vector<StateFormula>& StatesOf(const spec::Spec& spec);
  int64_t MostInFlight(pipeline::Schedule schedule, const pipeline::PipelineShape& shape, int stage);

  const Samples samples_;
  const host::MemoryRules rules_;
  host::MemoryRules rules_of_replay_;
  framework::Framework framework_;  // other than this program's; else empty
  bool has_framework_ = false;
  const std::unique_ptr<LeastTimes> times_;
  absl::flat_hash_map<std::string, std::unique_ptr<const Pieces>> pieces_;  // by the small job's spec
  absl::flat_hash_map<std::string, std::vector<StateFormula>> states_;
  absl::flat_hash_map<std::string, double> replicas_;
  absl::flat_hash_map<std::string, std::vector<int>> kinds_;
  absl::flat_hash_map<std::string, bool> alike_;
  absl::flat_hash_map<std::vector<int>, int64_t> in_flight_;
};

}  // namespace twofold::plan
