// A copy of the neighbour's shard: each rank of a shard group also keeps the shard of the rank before it, with its
// optimizer state. So the loss of any one rank, or of several that are not neighbours, loses nothing.
//   Wang et al. 2023, "GEMINI: Fast Failure Recovery in Distributed Training with In-Memory Checkpoints", SOSP:
//   section 4 (copies on other machines). GEMINI sends copies of the state; here the neighbour repeats the update from
//   the same gradients. The copy is therefore never behind: it is equal to the bit as soon as the update is committed.
//
// With N ranks in a shard group and a model of Psi bytes of gradients:
//   memory         1/N of parameters, gradients and optimizer state more on every rank
//   communication  each rank sends and receives Psi / N bytes a step, once its gradients are complete
//   compute        an optimizer step on 1/N of the elements more
// Use it with ZERO_1 to ZERO_3 if ranks may be lost and checkpoints are rare. HYBRID_SHARD has copies anyway.
// Limits: a rank and the one after it that are lost together lose a shard. All parameters must have the same replicas
// (no experts), the state must be on the device, and the optimizer must not be one that communicates.
#pragma once

#include <memory>
#include <vector>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/optim/optimizer.h"
#include "strategies/data_parallel/layout.h"

namespace twofold {

// One per rank, used from its thread. The arguments of the constructor must outlive it. Calls are collective over the
// shard group.
class ShardCopy {
 public:
  // `own`: the optimizer that is attached to the layout's slices; `copy`: a new one of the same kind. `shards`: the
  // layout's shard group. Allocates the copy and fills it in.
  ShardCopy(nn::Context& ctx, const ParameterLayout& layout, ProcessGroup& shards, const optim::Optimizer& own,
            std::unique_ptr<optim::Optimizer> copy);

  // Sends this rank's complete gradients to the next rank. Call after FinishGradients.
  void SendGradients();
  // Updates the copy as the optimizer updates the slices.
  void Update(double lr, const Tensor& factor) { copy_->Step(ctx_, lr, factor); }
  // Fills the copy in from its owner: parameters and optimizer state after `updates` updates.
  void Refresh(int64_t updates);
  // The copy: as ParameterLayout::Slices and Optimizer::StateOf.
  const std::vector<optim::Slice>& copies() const { return copies_; }
  std::vector<optim::State> StateOf(size_t i) const { return copy_->StateOf(i); }

 private:
  // Sends `mine` to the next rank and receives `others` from the one before.
  void Pass(const std::vector<Tensor>& mine, const std::vector<Tensor>& others);

  nn::Context& ctx_;
  ProcessGroup& shards_;
  const optim::Optimizer& own_;
  const std::vector<optim::Slice> slices_;  // this rank's
  const std::unique_ptr<optim::Optimizer> copy_;
  std::vector<optim::Slice> copies_;  // of the slices of the rank before
};

}  // namespace twofold
