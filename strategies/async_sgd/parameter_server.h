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

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "core/run/rank_context.h"
#include "strategies/async_sgd/links.h"
#include "strategies/async_sgd/options.h"
#include "strategies/async_sgd/update_schedule.h"
#include "strategies/async_sgd/worker_parts.h"
#include "strategies/data_parallel/flat_parameter.h"
#include "strategies/models/model.h"

namespace twofold {

// One server: a shard of the parameters, and the gradients that arrive for it. Used from the rank's thread. All
// arguments must outlive it.
class ParameterServer {
 public:
  struct Training {
    const Model& model;
    ModelTypes types;
    uint64_t seed = 0;
    int64_t updates = 0;
    const AsyncSgdOptions& options;
    const AsyncUpdate& update;
  };
  // Draws the initial values of its shard. Allocates Category::kParameters, kOptimizerState and, for gradients,
  // kGradients. Throws OutOfMemory.
  ParameterServer(RankContext& ctx, const Training& training, ServerLinks& links, AsyncObserver& observer);
  int64_t parameters() const { return flat_.numel(); }  // of the whole model
  // Serves until all updates are done, then gives every worker the final parameters. Throws what communication throws.
  void Run();

 private:
  bool leads() const { return server_ == 0; }
  int workers() const { return static_cast<int>(links_.data.size()); }

  void StartWhoMay();
  void Start(int worker);
  std::vector<int> MayTake() const;
  int NextGradient();
  int NextOrder();
  void TellOrder(int worker);
  void Take(int worker);
  void Fold(size_t worker);
  std::optional<double> Update();
  Work SendParameters(size_t worker);
  void Finish();

  RankContext& ctx_;
  const Training training_;
  ServerLinks& links_;
  AsyncObserver& observer_;
  nn::Context nn_;
  const int server_;
  const std::unique_ptr<nn::Module> model_;  // without storage
  const FlatParameter flat_;
  const int64_t held_;  // elements of the shard that are no padding
  UpdateSchedule schedule_;
  std::unique_ptr<optim::Optimizer> optimizer_;

  Tensor shard_;            // parameters
  Tensor sum_;              // of the gradients that the next update has so far
  Tensor loss_sum_;         // of their losses; on server 0
  bool summed_ = false;     // there are any
  struct Inbox {            // of a worker
    Tensor gradient, loss;  // `loss` on server 0
    Work arrives;           // of what this worker computes
    double weight = 1;
    bool full = false;  // the gradient was taken, and is not in sum_ yet
  };
  std::vector<Inbox> inboxes_;
  std::deque<int> idle_;      // workers that wait for parameters, the first one for longest
  std::vector<Work> sends_;   // of parameters, which must not change meanwhile
  Tensor tokens_;             // what messages without contents send and receive: one element for each worker
  std::vector<Work> orders_;  // a follower's: by worker, the next order to take its gradient
  std::vector<Work> heard_;   // the leader's: by follower, that it has heard the last order
};

}  // namespace twofold
