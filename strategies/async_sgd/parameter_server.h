// A parameter server: a shard of the parameters, and the gradients that arrive for it (async_sgd.h).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "strategies/async_sgd/links.h"
#include "strategies/async_sgd/update_schedule.h"
#include "strategies/data_parallel/flat_parameter.h"
#include "strategies/recorder.h"
#include "strategies/trainer.h"

namespace twofold {

// Used from the rank's thread. All arguments must outlive it.
class ParameterServer {
 public:
  // Draws the initial values of its shard. Allocates Category::kParameters, kOptimizerState and, for gradients,
  // kGradients. Throws OutOfMemory.
  ParameterServer(RankContext& ctx, const TrainingOptions& options, ServerLinks& links, Recorder& recorder);
  int64_t parameters() const { return flat_.numel(); }  // of the whole model
  // Serves until all updates are done, then gives every worker the final parameters. `progress` is called after each
  // update; `next` as for TrainRank. Throws what communication throws.
  void Run(const std::function<void(const StepProgress&)>& progress, const std::function<int64_t(int64_t)>& next);

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
  const TrainingOptions& options_;
  ServerLinks& links_;
  Recorder& recorder_;
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
