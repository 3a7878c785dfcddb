// From a spec to a trained rank: the same code on every fabric.
#pragma once

#include <functional>
#include <string>

#include "core/data/dataset.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "core/run/rank_context.h"

namespace twofold {

struct StepProgress {
  int64_t step, steps;
  double seconds, loss;
};  // step: done so far, from 1

// Trains this rank for spec.train.steps and returns its serialized report::RankRecord. `spec` is whole and
// validated (every default filled in), `data` holds the samples. `progress` is called on rank 0 after each
// step; may be empty. Throws what the fabric throws; the record of the steps done so far is then the
// context's partial result.
std::string TrainRank(RankContext& ctx, const spec::Spec& spec, const Dataset& data,
                      const std::function<void(const StepProgress&)>& progress = {});

}  // namespace twofold
