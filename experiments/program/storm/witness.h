// What the ranks of a simulated run did, written down in memory that outlives the process of the simulation.
//
// A witness sees the samples that each rank reads, and a hash of every piece of the state that it holds between steps.
// The memory is shared by the process that makes the witness and its children; one run writes into it at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/trainer.h"

namespace twofold::storm {

struct Seen {
  enum What : int32_t {
    kDone,    // `steps` are done: the member begins to train in this generation, or ends a step. key: of all members
    kPiece,   // it then holds a piece of the state. key: a hash of which; value: of its bytes
    kSample,  // it reads sample number `value`
    kSaved,   // it announces a checkpoint of `steps` steps. value: its sequence number
    kEnds     // its function returns (`value` 1) or throws (0)
  };
  int32_t what, member, generation;
  int32_t unused = 0;
  int64_t steps = 0;
  uint64_t key = 0, value = 0;
  double time = 0;  // virtual, of the rank
};

class Witness {
 public:
  static absl::StatusOr<std::unique_ptr<Witness>> Make();
  ~Witness();
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  void Forget();
  std::span<const Seen> seen() const;
  bool full() const;                      // it could not write down all
  std::vector<std::string> ends() const;  // what members threw, in order: "member 4: rank 4: ..."

  // Makes `options` be watched, with any number of replicas. The options must not outlive the witness.
  void Watch(TrainingOptions& options);
  // TrainRank, with what the rank reads and how it ends.
  std::string Train(RankContext& ctx, const TrainingOptions& options, const Samples& samples);

 private:
  struct Memory;
  explicit Witness(Memory* memory) : memory_(memory) {}
  void Note(const Seen& seen);
  void NoteEnd(int member, const std::string& text);

  Memory* const memory_;
};

}  // namespace twofold::storm
