// The steps of a rank: training, validations, checkpoints, and what is told about them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "strategies/rank_trainer.h"
#include "strategies/recorder.h"
#include "strategies/trainer.h"

namespace twofold {

// One per rank, used from its thread. All arguments must outlive it.
class TrainingLoop {
 public:
  using Progress = std::function<void(const StepProgress&)>;
  using Next = std::function<int64_t(int64_t step)>;
  // As in TrainRank.
  TrainingLoop(RankContext& ctx, const TrainingOptions& options, Recorder& recorder, const Progress& progress,
               const Next& next)
      : ctx_(ctx), options_(options), recorder_(recorder), progress_(progress), next_(next) {}

  // Called after each step, with the steps done: whether to stop here, before the training is complete.
  std::function<bool(int64_t steps_done)> stops_after = {};
  // More state to save in checkpoints after so many steps.
  std::function<std::map<std::string, double>(int64_t steps_done)> scalars = {};

  // Runs the steps from `first_step` on. Returns whether the training is complete; else `stops_after` has stopped it.
  // Throws Interrupted if a signal has asked the run to end: then it has saved a checkpoint (checkpoint/on_signal.h).
  bool Run(RankTrainer& trainer, int64_t first_step);
  // Of the last checkpoint that is known to be complete: by all ranks if saves are synchronous, else by rank 0. 0:
  // none.
  int64_t saved_steps() const { return saved_steps_; }

 private:
  void Tell();
  void ShowState(RankTrainer& trainer, int64_t steps_done);
  void TellSaved(RankTrainer& trainer);
  bool Validate(RankTrainer& trainer, int64_t step);
  void Save(RankTrainer& trainer, int64_t steps_done);

  RankContext& ctx_;
  const TrainingOptions& options_;
  Recorder& recorder_;
  const Progress& progress_;
  const Next& next_;
  StepProgress done_{};
  int64_t saved_steps_ = 0, saving_steps_ = 0;  // of the last one that is complete; that was begun
};

}  // namespace twofold
