// A worker of asynchronous SGD with parameter servers: computes gradients on parameters from the servers (async_sgd.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strategies/async_sgd/links.h"
#include "strategies/async_sgd/replica.h"

namespace twofold {

// Used from the rank's thread. All arguments must outlive it.
class AsyncWorker {
 public:
  // Allocates the parameters, which get no values yet, and their gradients. Throws OutOfMemory.
  AsyncWorker(RankContext& ctx, const TrainingOptions& options, const Samples& samples, ServerLinks& links,
              Recorder& recorder);
  // Computes gradients until server 0 says that these are all. The parameters are the final ones then. With `next`, as
  // for TrainRank, it computes as many as there are updates. Throws what communication throws.
  void Run(const std::function<int64_t(int64_t)>& next);

  int64_t parameters() const { return replica_.parameters(); }

 private:
  void Push();
  void BeginFetch();
  bool Fetch();
  Tensor ShardOf(const Tensor& flat, size_t server) const;

  RankContext& ctx_;
  const int64_t updates_;
  ServerLinks& links_;
  Recorder& recorder_;
  Replica replica_;
  Tensor token_;
  Work stops_;                 // server 0 says that the training is over
  std::vector<Work> fetches_;  // by server: the next parameters
};

}  // namespace twofold
