// Stages of a layout's pipeline, composed from pieces: what bound.h calls quick.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/host/memory_rules.h"
#include "backends/simulated/least_times.h"
#include "experiments/program/plan/likeness.h"
#include "experiments/program/plan/pipeline_bound.h"
#include "experiments/program/plan/rank_times.h"
#include "strategies/models/model.h"

namespace twofold::plan {

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

struct StagesOfPieces {
  std::vector<StageTimes> stages;
  // Seconds that actions together may take less: those of the first and of the last micro-batch, which have
  // communication of replicas in flight.
  double less = 0;
};

class StagePieces {
 public:
  // Pieces are for groups of at least two, three, or so many ranks: many layouts share them.
  static constexpr int64_t kFewest = 4;

  // All must outlive it.
  StagePieces(const Samples& samples, const host::MemoryRules& rules, LeastTimes& times, Likeness& likeness)
      : samples_(samples), rules_(rules), times_(times), likeness_(likeness) {}

  const Pieces* Of(const spec::Spec& spec);  // null: the model has no repeating blocks
  StagesOfPieces Compose(const spec::Spec& spec, const Pieces& pieces, const std::vector<nn::ModelPart>& parts);
  // Sets how long messages to the next stage take. Returns for how many seconds the messages that a stage sends and
  // receives for one action slow what computes.
  double SetMessages(const spec::Spec& spec, std::vector<StageTimes>& stages);
  double ReplicasOf(const spec::Spec& spec, int64_t blocks);  // seconds of a micro-batch, of one block
  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }

 private:
  bool AreSlowed(const spec::Spec& spec);  // pieces
  Pieces MakePieces(const spec::Spec& spec, const spec::Spec& small);

  const Samples& samples_;
  const host::MemoryRules& rules_;
  LeastTimes& times_;
  Likeness& likeness_;
  absl::flat_hash_map<std::string, std::unique_ptr<const Pieces>> pieces_;  // by the small job's spec
  absl::flat_hash_map<std::string, double> replicas_;
};

}  // namespace twofold::plan
