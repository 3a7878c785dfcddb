// Training that rarely speaks: islands of ranks take optimizer steps on their own, and meet every H steps.
//   Stich 2019, "Local SGD Converges Fast and Communicates Little", ICLR: the new parameters are the islands' mean.
//   Douillard et al. 2023, "DiLoCo: Distributed Low-Communication Training of Language Models": algorithm 1. What an
//   island has changed since they last met, theta - theta_i, is an outer gradient. SGD with Nesterov momentum applies
//   the mean of the outer gradients to theta, from which all islands go on.
//   Douillard et al. 2025, "Streaming DiLoCo with overlapping communication": section 2. Fragments of the model meet at
//   different times, each every H steps. Training goes on for tau steps while a fragment is sent. Then theta_i becomes
//   alpha theta_i + (1 - alpha) theta, where 1 - alpha is `weight` here.
//   Therien et al. 2025, "MuLoCo": outer gradients are sent in 4 bits, with error feedback (the reducer's).
//
// H steps of DDP send H messages of all gradients. H steps here send one. With P parameters in a rank's slices, I
// islands and 4 bytes per value:
//   memory         DiLoCo: the common values and the momentum, 4 P bytes each, and while fragments are sent, 4 bytes
//                  for each of their parameters. Local SGD: only the latter. A reducer's error feedback comes on top
//   communication  each rank sends 2 * 4 P (I - 1) / I bytes in H steps, and half of that once, to begin equal.
//                  Quantised: what the codec sends (strategies/compression/coded_reducer.h)
//   compute        about ten passes over P in H steps
//   convergence    Douillard et al. 2023 find DiLoCo close to training with one large batch, for H up to hundreds of
//                  steps and hundreds of outer steps. After 20 outer steps of a small model, local SGD was better
//                  (experiments/studies/less_communication)
// Use it where the links between islands are slow (other sites, Ethernet between racks), with islands whose inner links
// are fast. Under ZeRO within an island, the ranks share the outer state and its messages. Under NO_SHARD each rank of
// an island keeps and sends all of it.
//
// Limits: between outer steps there is not one model but I. Losses and validations are means over the islands. If
// training ends between outer steps, the islands differ. With several fragments no element may be on two pipeline
// stages: they would exchange it at different times.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "strategies/data_parallel/reducer.h"
#include "strategies/local_update/fragment.h"

namespace twofold {

struct LocalUpdateOptions {
  int64_t every_steps = 30;             // H
  std::optional<OuterOptimizer> outer;  // DiLoCo; nullopt: local SGD
  int fragments = 1;                    // at most H; some may be empty
  int64_t overlap_steps = 0;            // tau, less than H
  double weight = 1;                    // 1 - alpha
  MakeReducer make_reducer;             // of outer gradients, or of local SGD's parameters
};

// One object per rank, used from the rank's thread.
class LocalUpdate {
 public:
  // Makes the slices' data equal on all islands: those of the first one. Call it before the optimizer is attached.
  static void Begin(nn::Context& ctx, const std::vector<optim::Slice>& slices, ProcessGroup& islands);
  // `optimizer` is attached to `slices`. `islands`: the ranks at this place in each island. All arguments but the
  // options must outlive it. Throws OutOfMemory.
  LocalUpdate(nn::Context& ctx, const std::vector<optim::Slice>& slices, const optim::Optimizer& optimizer,
              ProcessGroup& islands, const ReplicaGroups& groups, const LocalUpdateOptions& options);

  const ProcessGroup& islands() const { return islands_; }

  // Called after each optimizer update. `done`: steps of the whole training so far. Collective over the islands.
  void AfterUpdate(int64_t done);
  // Waits until nothing is in flight, and returns what checkpoints save.
  std::vector<FragmentState> Settle();
  // Before states are loaded: allocates those of fragments that were on their way after `done` steps. Returns all.
  std::vector<FragmentState> Restore(int64_t done);
  // Outer gradients that are on their way are not used.
  void Forget();
  // Without states to load: the common values are the slices' values, which must be equal on all islands.
  void Restart();

 private:
  // Steps since fragment i was last sent; negative: it never was.
  int64_t Age(size_t i, int64_t done) const;
  std::vector<FragmentState> States() const;

  nn::Context& ctx_;
  ProcessGroup& islands_;
  const LocalUpdateOptions options_;
  std::deque<Fragment> fragments_;
};

}  // namespace twofold
