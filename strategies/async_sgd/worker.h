// A worker of asynchronous SGD with parameter servers: computes gradients on parameters from the servers
// (parameter_server.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/run/rank_context.h"
#include "strategies/async_sgd/links.h"
#include "strategies/async_sgd/worker_parts.h"

namespace twofold {

// Used from the rank's thread. All arguments must outlive it.
class AsyncWorker {
 public:
  // `updates`: of the whole training. `source`: its parameters need no values yet.
  AsyncWorker(RankContext& ctx, int64_t updates, GradientSource& source, ServerLinks& links, AsyncObserver& observer);
  // Computes gradients until server 0 says that these are all. The parameters are the final ones then. Throws what
  // communication throws.
  void Run();

 private:
  void Push();
  void BeginFetch();
  bool Fetch();
  Tensor ShardOf(const Tensor& flat, size_t server) const;

  RankContext& ctx_;
  const int64_t updates_;
  GradientSource& source_;
  ServerLinks& links_;
  AsyncObserver& observer_;
  Tensor token_;
  Work stops_;                 // server 0 says that the training is over
  std::vector<Work> fetches_;  // by server: the next parameters
};

}  // namespace twofold
