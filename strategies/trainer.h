// From a spec to a trained rank: the same code on every fabric.
#pragma once

#include <functional>
#include <string>

#include "core/data/dataset.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "core/run/rank_context.h"

namespace twofold {

namespace checkpoint {
struct Opened;
struct Saved;
}

struct StepProgress {
  int64_t step, steps;
  double seconds, loss;
  const report::Validation* validation = nullptr;  // when one was done after this step
  const checkpoint::Saved* saved = nullptr;        // when one became whole
  int64_t first_step = 0;                          // done by the run that this one goes on from
};  // step: done so far, from 1

// What to train on, and what to validate on where spec.train.validation asks for it. Refers to both.
struct Samples {
  Samples(const Dataset& training_data, const Dataset* validation_data = nullptr)
      : training(training_data), validation(validation_data) {}
  const Dataset& training;
  const Dataset* validation;
};

// Trains this rank for spec.train.steps, or until validation has its patience run out, and returns its
// serialized report::RankRecord. `spec` is whole and validated (every default filled in, epochs made steps, a path for
// checkpoints). With spec.train.resume it goes on from there, and steps count from the first step of all.
// `progress` is called on rank 0 after each step, and again after a validation; may be empty. Throws what the
// fabric throws; the record of what was done so far is then the context's partial result.
// `next` is asked before every step which one is to be done: that one or a later one. For replays, which leave out steps
// that would do what those before them did; empty: every step is done.
// `read`: the checkpoint that spec.train.resume names, where this process has read it and held it against `spec`. Null: rank 0 does so
// now. Rank 0's holds for all (checkpoint/agree.h).
std::string TrainRank(RankContext& ctx, const spec::Spec& spec, const Samples& samples,
                      const std::function<void(const StepProgress&)>& progress = {},
                      const std::function<int64_t(int64_t step)>& next = {}, const checkpoint::Opened* read = nullptr);

}  // namespace twofold
