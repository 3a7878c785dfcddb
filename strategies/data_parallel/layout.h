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
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/comm/process_group.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "strategies/data_parallel/reduction_pipeline.h"
#include "strategies/groups/group_tags.h"

namespace twofold {

// A flat tensor of gradients, and the parts of parameters in it. What lies between or after them is padding.
struct FlatGradient {
  Tensor gradient;
  std::vector<optim::SlicePart> parts;  // in the order of their offsets
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

  // Called once, when `optimizer`, which must outlive the training, has been attached to Slices().
  virtual void Attached(const optim::Optimizer&) {}
  // Resets the gradients. `loss_scale`: the factor that this step's gradients will contain.
  virtual void BeginStep(double loss_scale = 1) = 0;
  // Called before the forward and backward pass of a micro-batch. `last`: it is the last one of the step.
  virtual void BeginMicroBatch(bool last) = 0;
  // Called after the last backward pass. For work launched from now on, the slices' gradients are means over the ranks,
  // and sums over those of one copy of the model that computed parts of them.
  virtual void FinishGradients() = 0;
  // Called instead of an update if the gradients are not used (they are not finite).
  virtual void SkipUpdate() = 0;
  // Called after the slices' data have changed (an update, a loaded checkpoint). The next use of the model sees the new
  // values.
  virtual void PublishUpdate() = 0;

  // What this rank's optimizer updates: the same tensors at every call. All parameters of one slice have the same
  // replicas.
  virtual std::vector<optim::Slice> Slices() const = 0;
  // The ranks whose slices together hold each element of the parameters with these replicas once. To sum over all
  // elements, sum over this group. Null if nothing is sharded: every rank then holds whole tensors.
  virtual ProcessGroup* shard_group(nn::GroupTag replicas = {}) = 0;
  // The parts of parameters that the slices of rank `shard` of shard_group() hold, slice by slice. All ranks' slices
  // have the same sizes. Empty if nothing is sharded.
  virtual std::vector<std::vector<optim::SlicePart>> PartsOfShard(int /*shard*/) const { return {}; }
  // The gradients of all slices, as few flat tensors.
  virtual std::vector<FlatGradient> Gradients() const = 0;
  // Tells ranks apart (ProcessGroup::RanksDiffer) whose shards differ in `traits`: a text about the parts of parameters
  // that a rank keeps of a bucket. It must be empty for parts that no other rank of a copy of the model holds, too
  // (nn::ShardLayout::Part::holders). Sends nothing.
  struct ShardTraits {
    std::string text;
    ProcessGroup* over = nullptr;  // set: it describes collectives over this group, which need no memory
  };
  using PartTraits = absl::FunctionRef<ShardTraits(size_t bucket, const std::vector<optim::SlicePart>& kept)>;
  // `briefly`: in what is done briefly (ProcessGroup::RanksDifferBriefly); returns whether this rank stands for others
  // in it. Where one shard has all that the others have, that one stands for them if it can, and this returns false.
  virtual bool TellShardsApart(PartTraits /*traits*/, const std::string& /*why*/, bool /*briefly*/) { return false; }

  // What reducers keep from step to step: the same tensors at every call, until SkipUpdate.
  virtual std::vector<NamedState> ReducerStates() const = 0;

  // Replaces the persistent buffers (batch norm's running statistics) with their mean over the ranks. Called before
  // they are read: for evaluation or a checkpoint. During training nothing reads them, so each rank's buffers follow
  // its own micro-batches without communication. (PyTorch broadcasts rank 0's buffers before every forward pass.)
  virtual void AverageBuffers() = 0;

 protected:
  explicit ParameterLayout(Chunks chunks) : chunks_(std::move(chunks)) {}
  Chunks chunks_;
};

}  // namespace twofold
