// Where a model's parameters, gradients and optimizer state are stored across the ranks that share the batch. DDP,
// ZeRO-1, ZeRO-2, ZeRO-3 (FSDP) and hybrid sharding differ in this alone. A training step needs only this interface:
//
//     layout.BeginStep();
//     for each micro-batch:  layout.BeginMicroBatch(last);  layout.chunks() forward and backward
//     layout.FinishGradients();
//     optimizer update of layout.Slices()
//     layout.PublishUpdate();
//
// One object per rank, used from the rank's thread. All calls but BeginStep are collective over the ranks that share
// the batch.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/comm/process_group.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"

namespace twofold {

// Within one copy of the model, the groups of ranks that hold the same parts of it as this rank (nn::ShardLayout). Null
// if no other rank does.
struct Sharers {
  ProcessGroup* tensor = nullptr;     // ShardLayout::Sum::kTensor, and other parameters that all tp ranks hold whole
  ProcessGroup* key_value = nullptr;  // kKeyValue
  ProcessGroup* embedding = nullptr;  // kEmbedding
};

// The ranks over which gradients are averaged. `all`: the ranks with equal copies of this rank's parameters. `experts`:
// those among them with the same experts, if ranks that share the batch hold different ones
// (strategies/expert_parallel/). `sharers`: the other ranks with which a parameter's initial values are shared.
struct ReplicaGroups {
  ReplicaGroups(ProcessGroup& everything) : all(everything), experts(everything) {}
  ReplicaGroups(ProcessGroup& everything, ProcessGroup& same_experts, const Sharers& in_one_copy = {})
      : all(everything), experts(same_experts), sharers(in_one_copy) {}
  bool differ() const { return &all != &experts; }
  ProcessGroup& Of(nn::Replicas replicas) const { return replicas == nn::Replicas::kExperts ? experts : all; }

  ProcessGroup &all, &experts;
  Sharers sharers;
};

// The parts of the model that a rank holds, in the model's order: one, or several on a stage of an interleaved
// pipeline. Each is finalized, with the names of the whole model.
using Chunks = std::vector<std::unique_ptr<nn::Module>>;
inline Chunks OneChunk(std::unique_ptr<nn::Module> model) {
  Chunks chunks;
  chunks.push_back(std::move(model));
  return chunks;
}

class ParameterLayout {
 public:
  virtual ~ParameterLayout() = default;
  // The chunks to run, with the layout's wrappers around their parts.
  std::span<const std::unique_ptr<nn::Module>> chunks() const { return chunks_; }
  std::vector<nn::Parameter*> Parameters() const;  // of all chunks, in order
  std::vector<nn::Parameter*> Buffers() const;

  virtual void BeginStep() = 0;  // resets the gradients
  // Called before the forward and backward pass of a micro-batch. `last`: it is the last one of the step.
  virtual void BeginMicroBatch(bool last) = 0;
  // Called after the last backward pass. For work launched from now on, the slices' gradients are means over the ranks.
  virtual void FinishGradients() = 0;
  // Called after the slices' data have changed (an update, a loaded checkpoint). The next use of the model sees the new
  // values.
  virtual void PublishUpdate() = 0;

  // What this rank's optimizer updates: the same tensors at every call. All parameters of one slice have the same
  // replicas.
  virtual std::vector<optim::Slice> Slices() const = 0;
  // The ranks whose slices together hold each element of the parameters with these replicas once. To sum over all
  // elements, sum over this group. Null if nothing is sharded: every rank then holds whole tensors.
  virtual ProcessGroup* shard_group(nn::Replicas replicas = nn::Replicas::kAll) = 0;
  // The gradients of all slices, as few flat tensors.
  virtual std::vector<Tensor> Gradients() const = 0;

  // Replaces the persistent buffers (batch norm's running statistics) with their mean over the ranks. Called before
  // they are read: for evaluation or a checkpoint. During training nothing reads them, so each rank's buffers follow
  // its own micro-batches without communication. (PyTorch broadcasts rank 0's buffers before every forward pass.)
  virtual void AverageBuffers() = 0;

 protected:
  explicit ParameterLayout(Chunks chunks) : chunks_(std::move(chunks)) {}
  Chunks chunks_;
};

}  // namespace twofold
