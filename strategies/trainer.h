// Trains one rank. The code is the same on every fabric.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/data/dataset.h"
#include "core/run/rank_context.h"
#include "strategies/training_options.h"

namespace twofold {

struct StepProgress {
  int64_t step, steps;                           // `step`: steps done so far, from 1
  double seconds = 0, loss = 0;                  // of the last step whose time is known; of `loss_step`
  const ValidationResult* validation = nullptr;  // set if a validation was done after this step
  const checkpoint::Saved* saved = nullptr;      // set if a checkpoint became complete
  int64_t first_step = 0;                        // steps done by the run that this one resumes
  int64_t loss_step = 0;                         // steps done when `loss` was read; 0: none was read so far
};

// The training samples, and the validation samples if there are validations. Holds references to both.
struct Samples {
  Samples(const Dataset& training_data, const Dataset* validation_data = nullptr)
      : training(training_data), validation(validation_data) {}
  const Dataset& training;
  const Dataset* validation;
};

// Trains this rank for options.steps steps, or until the patience of the validation runs out. Returns the rank's
// serialized report::RankRecord. With options.resume, training continues from that checkpoint, and steps count from the
// first step of the original run.
// `progress` is called on rank 0 after each step, and again after a validation or a completed checkpoint. May be empty.
// `next` maps the step that comes next to the step to run: the same one or a later one. Replays use it to leave out
// steps that repeat earlier ones. If empty, every step is run.
// `read`: the checkpoint that options.resume names, if this process has already read it and checked that it fits
// options.run. If null, rank 0 does so now. Rank 0's checkpoint holds for all ranks (checkpoint/agree.h).
// Throws what the fabric throws. The record of the steps done so far is then the context's partial result.
std::string TrainRank(RankContext& ctx, const TrainingOptions& options, const Samples& samples,
                      const std::function<void(const StepProgress&)>& progress = {},
                      const std::function<int64_t(int64_t step)>& next = {}, const checkpoint::Opened* read = nullptr);

// The checkpoint that the run resumes from. Nullopt if it starts at step 0. Collective over the world.
std::optional<checkpoint::Opened> OpenResumed(RankContext& ctx, const TrainingOptions& options,
                                              const checkpoint::Opened* read);

}  // namespace twofold
