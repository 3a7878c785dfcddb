// Asynchronous SGD without servers: workers average their parameters with one other worker at a time.
//   Lian, Zhang, Zhang, Liu 2018, "Asynchronous Decentralized Parallel Stochastic Gradient Descent" (AD-PSGD), ICML:
//   algorithm 1, and section 4.2 on deadlocks: only active workers choose partners, only passive ones are chosen, so
//   that no circle of workers can wait for each other.
//
// Each worker has parameters and an optimizer of its own. The first half of the workers is active. In each step a
// worker computes a gradient. Meanwhile an active one exchanges parameters with a passive one that it draws; the
// passive one answers when it has computed its own gradient. Both go on from the mean of the two, to which each applies
// its gradient.
//
// With P parameters in F32 and W workers:
//   memory         parameters, gradients, optimizer state, and the partner's parameters: 12 P bytes and the state
//   communication  an active worker sends and receives 4 P bytes a step; a passive one as much for each time that it is
//                  chosen, about once a step. No link carries more, for any number of workers
//   compute        that of DDP, and two passes over P for each exchange
//   convergence    as synchronous SGD for many steps (Lian et al., theorem 1), if workers' parameters stay close:
//                  averaging with random partners spreads a change in about log2(W) steps
// Use it where links differ or many workers would make a server's link the bottleneck. An exchange waits for the
// partner to finish its step, so a slow passive worker delays the active ones that draw it, but nobody else.
//
// Limits: those of parameter_server.h. Until the end there is not one model but W; the losses are means over workers of
// the same step. Parameters are F32 or F64. At the end all workers take the mean of all.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/optim/optimizer.h"
#include "core/run/rank_context.h"
#include "strategies/async_sgd/links.h"
#include "strategies/async_sgd/options.h"
#include "strategies/async_sgd/worker_parts.h"

namespace twofold {

// Ranks from this one on are passive.
inline int FirstPassive(int workers) { return workers / 2; }

// The place of the passive worker, 0 to passive - 1, that active worker `active` draws in step `step`.
int GossipPartner(uint64_t seed, int active, int64_t step, int passive);

// Used from the rank's thread. All arguments must outlive it.
class GossipWorker {
 public:
  // `source`: its parameters have their initial values. Collective over the world. Throws OutOfMemory and what
  // communication throws.
  GossipWorker(RankContext& ctx, int64_t steps, uint64_t seed, GradientSource& source, const AsyncUpdate& update,
               AsyncObserver& observer);
  // All steps of this worker, and all exchanges that others ask it for.
  void Run();

 private:
  bool active() const { return ctx_.rank() < first_passive_; }
  int passive() const { return ctx_.world_size() - first_passive_; }
  void ListenTo(size_t partner);
  Work Exchange(size_t partner);
  void Mix(Work exchange);
  int64_t Answer();
  void AnswerTheRest();

  RankContext& ctx_;
  const int64_t steps_;
  const uint64_t seed_;
  GradientSource& source_;
  const AsyncUpdate& update_;
  AsyncObserver& observer_;
  const int first_passive_;
  std::vector<std::unique_ptr<ProcessGroup>> pairs_;  // by partner; the active worker is rank 0
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor theirs_;  // a partner's parameters
  Tensor tokens_;  // contents of messages that ask; one element for each partner
  // A passive worker's, by partner: the next message that asks, and how many will still come
  std::vector<Work> asks_;
  std::vector<int64_t> coming_;
};

}  // namespace twofold
