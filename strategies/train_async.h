// Trains one rank of asynchronous SGD (async_sgd/parameter_server.h, async_sgd/gossip.h).
#pragma once

#include <functional>
#include <string>

#include "core/run/rank_context.h"
#include "strategies/trainer.h"
#include "strategies/training_options.h"

namespace twofold {

// TrainRank (trainer.h) if options.async_sgd is set. With servers, ranks 0 to servers - 1 are servers: rank 0, which
// leads, records updates as steps. Workers record gradients as steps.
std::string TrainAsync(RankContext& ctx, const TrainingOptions& options, const Samples& samples,
                       const std::function<void(const StepProgress&)>& progress,
                       const std::function<int64_t(int64_t)>& next);

}  // namespace twofold
