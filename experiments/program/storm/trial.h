// Runs of one spec: undisturbed, and through schedules of disasters.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "core/proto/storm.pb.h"
#include "core/run/fabric.h"
#include "experiments/program/storm/draw.h"
#include "experiments/program/storm/witness.h"
#include "strategies/trainer.h"

namespace twofold::storm {

struct Resumed;

// All that is known of a run when it has ended. The rules judge this alone.
struct Evidence {
  absl::Status status;
  std::vector<std::string> notes;
  std::vector<RunResult::Struck> struck;      // faults that did happen, by their numbers in the spec with the schedule
  std::map<int, report::RankRecord> records;  // by member; of those that left one
  std::vector<Seen> seen;
  std::vector<std::string> ends = {};  // what members threw
  bool saw_all = true;
  int64_t sequence_before = 0;  // of the last checkpoint that an earlier run has left in the folder; 0: none
  double processor_seconds = 0;
  // What a new run made of a checkpoint that this one has left. Null: there is none that was to be resumed.
  std::shared_ptr<Resumed> resumed = nullptr;
  // The record that speaks for the run: of the first member that did the last step; else of the latest generation, and
  // of the one that came farthest in it. Null: there is none.
  const report::RankRecord* lead() const;
};

// A second, undisturbed run, which resumed from a checkpoint of the first with the replicas that then trained.
struct Resumed {
  std::string path;    // of the checkpoint
  int64_t step = 0;    // steps done in it
  int generation = 0;  // of the first run: the one that trained on from there
  Evidence evidence;
};

// What an undisturbed run did.
struct Reference {
  std::vector<double> losses;                              // by step
  std::vector<std::map<int64_t, int64_t>> batches;         // by step: how often each sample is read
  std::map<std::pair<int64_t, uint64_t>, uint64_t> state;  // by steps done and piece: the hash, where all ranks agree
  std::map<int, int64_t> peak_bytes;                       // by rank
  int64_t most_bytes = 0;                                  // the largest peak of any number of replicas
  double seconds = 0;                                      // virtual, to the end
};

class Trials {
 public:
  // `spec`: resolved, on fabric simulated with data: REAL. Checkpoints go to `folder`, which is emptied before each
  // run; it may be empty if none are saved. Runs the spec undisturbed. `samples` must outlive this.
  static absl::StatusOr<std::unique_ptr<Trials>> Make(const spec::Spec& spec, const Samples& samples,
                                                      const std::string& folder);

  // In every other schedule (by its seed), an earlier run has left checkpoints of its own in the folder. If the run
  // saved checkpoints and came to its end, another one resumes from the last but one.
  // Forks; for processes of one thread. An error: the fabric refuses the spec with these disasters.
  absl::StatusOr<Evidence> Run(const Schedule& schedule) const;

  const spec::Spec& spec() const { return spec_; }
  const Reference& reference() const { return reference_; }
  const Terrain& terrain() const { return terrain_; }
  int64_t samples() const { return samples_.training.size(); }  // of an epoch
  // Call in a forked process before its first run: checkpoints go to another folder, and it has a witness of its own.
  absl::Status MoveTo(const std::string& folder);

 private:
  Trials(spec::Spec spec, const Samples& samples, std::unique_ptr<Witness> witness)
      : spec_(std::move(spec)), samples_(samples), witness_(std::move(witness)) {}
  bool HasEarlier(const Schedule& schedule) const { return !earlier_.empty() && schedule.seed() % 2 == 1; }
  absl::StatusOr<Evidence> RunSpec(const spec::Spec& spec, const std::string& earlier = "") const;
  absl::StatusOr<std::shared_ptr<Resumed>> Resume(const Evidence& evidence) const;
  absl::Status SaveEarlier();
  absl::Status Learn();
  void SetFolder(const std::string& folder);

  spec::Spec spec_;
  const Samples samples_;
  std::unique_ptr<Witness> witness_;
  std::string folder_;
  std::string earlier_;  // checkpoints of an earlier run; empty: none are needed
  Reference reference_;
  Terrain terrain_;
};

// The samples of each step that `member`s have read in `generation`, from the first step on that they did there: those
// of an interrupted step come last. By step: how often each sample was read.
std::map<int64_t, std::map<int64_t, int64_t>> BatchesOf(const Evidence& evidence, int generation);

}  // namespace twofold::storm
