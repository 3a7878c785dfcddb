// Asynchronous SGD: workers compute gradients without waiting for each other. This file is about parameter servers,
// which hold the parameters and apply gradients; gossip.h does without them.
//   Dean et al. 2012, "Large Scale Distributed Deep Networks", NIPS: section 4.1, Downpour SGD: model replicas push
//   gradients to a parameter server, sharded over machines, and fetch new parameters, each at its own speed.
//   Ho et al. 2013, "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS.
//   Zhang et al. 2016, "Staleness-aware Async-SGD for Distributed Deep Learning", IJCAI: section 2 (1-softsync) and
//   equation 6 (learning rates divided by the staleness).
//
// Each worker has its own part of the data. It repeats: fetch the parameters, compute a gradient, push it. An update
// takes the mean of as many gradients as there are workers, from whoever has one (update_schedule.h). So an update has
// the global batch, learning rate and schedule of synchronous training, and N updates use as many samples. With a bound
// of 0, training is synchronous, with the same losses; to the bit on fabrics that add in the order of ranks, if the
// number of workers is a power of two and gradients are not clipped (else they differ by rounding).
//
// With P parameters, W workers, S servers and F32:
//   memory         a worker: parameters and one gradient, 8 P bytes. A server: a shard of P / S parameters, their
//                  optimizer state, their sum of gradients, and one gradient for each worker: 4 (W + 2) P / S bytes
//                  beside the state. All of it is allocated at the start
//   communication  each gradient takes 4 P bytes to the servers and 4 P bytes back. A server sends and receives
//                  4 P W / S bytes an update, over one link, where an all-reduce sends 8 P (W - 1) / W bytes a rank:
//                  with few servers their links are the bottleneck. With S > 1, server 0 tells the others of each
//                  gradient that it takes
//   compute        a worker's is that of DDP without the optimizer. A server adds W gradients and does the optimizer's
//                  step on its shard, while the workers that it has answered compute
//   convergence    gradients are stale: with equal workers, by about one update. Momentum and large learning rates
//                  suffer first (Zhang et al. 2016, section 3)
// Use it where ranks differ in speed, or hiccup: one slow worker gives fewer gradients and holds nobody up until the
// bound is reached. Where ranks are alike, synchronous training sends less through any one link and converges better.
//
// Limits: a model fits on one worker (pp = tp = cp = ep = 1, not sharded). Workers are not lost or added. Which worker
// is fast decides whose samples are used, so on real fabrics two runs differ, unless the bound is 0. A batch norm's
// running statistics stay a worker's own.
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
