// Where the parameters, gradients and optimizer state of a model lie over the ranks that share the batch: the one axis on
// which DDP, ZeRO-1, 2 and 3 (FSDP) and hybrid sharding differ. A training step asks no more of it than this:
//
//     layout.BeginStep();
//     for each micro-batch:  layout.BeginMicroBatch(last);  layout.model() forward and backward
//     layout.FinishGradients();
//     optimizer update of layout.Slices()
//     layout.PublishUpdate();
//
// One rank's; used from its thread. All calls but BeginStep are collective over the ranks that share the batch.
#pragma once

#include <vector>

#include "core/comm/process_group.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"

namespace twofold {

// Of the ranks that together hold one copy of the model, those that hold the same of it (nn::ShardLayout): with whom this one shares what. Null:
// with nobody.
struct Sharers {
  ProcessGroup* tensor = nullptr;     // ShardLayout::Sum::kTensor, and whatever else all along tp have the whole of
  ProcessGroup* key_value = nullptr;  // kKeyValue
  ProcessGroup* embedding = nullptr;  // kEmbedding
};

// Over which ranks gradients are averaged: all that hold equal copies of this one's parameters, and those of them that hold the
// same experts, where ranks that share the batch hold different ones (strategies/expert_parallel/). And whom else a parameter's first
// values are shared with.
struct ReplicaGroups {
  ReplicaGroups(ProcessGroup& everything) : all(everything), experts(everything) {}
  ReplicaGroups(ProcessGroup& everything, ProcessGroup& same_experts, const Sharers& in_one_copy = {})
      : all(everything), experts(same_experts), sharers(in_one_copy) {}
  bool differ() const { return &all != &experts; }
  ProcessGroup& Of(nn::Replicas replicas) const { return replicas == nn::Replicas::kExperts ? experts : all; }

  ProcessGroup &all, &experts;
  Sharers sharers;
};

class ParameterLayout {
 public:
  virtual ~ParameterLayout() = default;
  virtual nn::Module& model() = 0;  // as it is to be run: with what the layout put around its parts

  virtual void BeginStep() = 0;  // gradients start anew
  // The next forward and backward pass are those of one micro-batch; `last`: the step's last.
  virtual void BeginMicroBatch(bool last) = 0;
  // After the last backward pass: for what is launched next, the slices' gradients are means over the ranks.
  virtual void FinishGradients() = 0;
  // The slices' data have new values (an update, a checkpoint): whoever uses them next, has them.
  virtual void PublishUpdate() = 0;

  // What this rank's optimizer updates, always the same tensors, each of parameters with the same replicas; and, where those are
  // parts of the parameters with these replicas, the ranks that together hold them once: sums over all of them are sums over
  // those ranks. Null: every rank holds all of what it has at all.
  virtual std::vector<optim::Slice> Slices() const = 0;
  virtual ProcessGroup* shard_group(nn::Replicas replicas = nn::Replicas::kAll) = 0;
  // The gradients of all slices, as few flat tensors.
  virtual std::vector<Tensor> Gradients() const = 0;

  // Persistent buffers (batch norm's running statistics) follow each rank's own micro-batches while training, where nothing
  // reads them, and cost no message. This gives all ranks the mean of what they hold, before something does: evaluation,
  // a checkpoint. (PyTorch gives rank 0's to all before every forward pass.)
  virtual void AverageBuffers() = 0;
};

}  // namespace twofold
