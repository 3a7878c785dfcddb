// Elastic training as a spec states it (train.elastic).
#pragma once

#include "core/proto/spec.pb.h"
#include "strategies/training_options.h"

namespace twofold {

// Ranks to start: WorldSize and those of train.elastic.spare_replicas.
int64_t RanksToStart(const spec::Spec& spec);

// The same training with `dp` replicas from the start, by the rule of train.elastic.batch (KEEP_GLOBAL if there is no
// train.elastic). It need not be valid. Without events, spare replicas, and what happens to single simulated ranks.
spec::Spec WithReplicas(const spec::Spec& spec, int64_t dp);

// TrainingOptionsOf, with what elastic training needs to change the number of replicas: any that gives a valid spec.
TrainingOptions TrainingOptionsFor(const spec::Spec& spec);

}  // namespace twofold
