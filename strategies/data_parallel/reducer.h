// How one bucket of gradients becomes its mean over the ranks that share the batch. Every kind of gradient
// communication (a plain mean, another type on the wire, compression) is a Reducer, which every layout can use.
//
// A bucket is a flat tensor. It need not hold gradients: a momentum or a difference of parameters is reduced in the
// same way. A reducer may need several messages, each of which depends on the one before it. It may keep state from
// step to step (the error that the last messages left out). The pipeline (reduction_pipeline.h) says when each message
// starts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/optim/optimizer.h"
#include "core/tensor/tensor.h"

namespace twofold {

// The ranks that reduce a bucket. Those of `scatter` keep one shard of the mean each, in rank order; if it is null,
// every rank keeps the whole mean. Those of `replicate` keep the same elements; null: no other rank does. Both null:
// nothing is reduced, this rank's gradients are the mean.
struct ReductionGroups {
  ProcessGroup* scatter = nullptr;
  ProcessGroup* replicate = nullptr;
  // Set if the ranks of `scatter` reduce in two stages: first m consecutive ones that are near each other, then those
  // at the same place of each m. Rank r of `scatter` is rank r % m of `near` and r / m of `far`.
  ProcessGroup *near = nullptr, *far = nullptr;
  bool reduces() const { return scatter != nullptr || replicate != nullptr; }
  int size() const { return SizeOf(scatter) * SizeOf(replicate); }
  // This rank among all of them.
  int rank() const { return RankIn(replicate) * SizeOf(scatter) + RankIn(scatter); }

 private:
  static int SizeOf(const ProcessGroup* group) { return group == nullptr ? 1 : group->size(); }
  static int RankIn(const ProcessGroup* group) { return group == nullptr ? 0 : group->rank(); }
};

struct Bucket {
  size_t index = 0;   // buckets are numbered in the order in which they are added, the same on all ranks
  int64_t numel = 0;  // of the whole flat tensor, with padding
  DType dtype = DType::kF32;
  // The parameters in the flat tensor, and the parts of them in what this rank keeps. The offsets of the latter count
  // from the first element that is kept.
  std::vector<optim::SlicePart> whole;
  std::vector<optim::SlicePart> kept;
  ReductionGroups groups;
};

// What a reducer keeps for a bucket from step to step: one value for each of the elements [first, first + numel) of the
// flat tensor. States of one name are parts of one sum, over the ranks of the bucket's groups and the stages of its
// reduction: of what the mean still lacks of each element ("residual"), or of its momentum ("momentum"). So other ranks
// can take over from those that kept them, if the sum stays the same.
// Or, if `parameter` is set, a tensor [rows, columns] of a shape of its own for this parameter, equal on all ranks.
struct ReducerState {
  std::string name;
  Tensor tensor;
  int stage = 0;  // of the reduction; the state of stage 0 has all elements of the flat tensor
  int64_t first = 0;
  double weight = 1;  // of this state in the sum. Those of all ranks that have a value for an element in stage 0 are 1
  const nn::Parameter* parameter = nullptr;
};

// One object per bucket and rank, used from the rank's thread. Every rank calls the same functions for the same buckets
// in the same order.
class Reducer {
 public:
  virtual ~Reducer() = default;
  // Called once, when the optimizer has its state. `state_of` returns a whole parameter's state of this name, or an
  // empty tensor. Sharded layouts do not call it: no rank has whole states there.
  using StateOf = std::function<Tensor(const nn::Parameter&, std::string_view name)>;
  virtual void Attached(const StateOf& /*state_of*/) {}
  // Called before the reductions of a step. `loss_scale`: the factor that its gradients contain.
  virtual void BeginStep(nn::Context&, double /*loss_scale*/) {}
  // Starts the first message. `in` [numel]: this rank's gradients, which may be overwritten. `out`: if it is not empty,
  // the mean may be written there; it may be `in`, or a part of it. `last`: this is the step's last micro-batch.
  virtual Work Start(nn::Context& ctx, Tensor in, Tensor out, bool last) = 0;
  // Called when the compute stream is ordered after the message before: starts the next one. Nullopt if that was the
  // last.
  virtual std::optional<Work> Next(nn::Context&) { return std::nullopt; }
  // Whether Next has messages to start after the first one. They leave sooner if Advance is called during backward.
  virtual bool has_next() const { return false; }
  // Called after the last message: the elements of the mean that this rank keeps, in any floating-point type. The
  // caller may overwrite them.
  virtual Tensor Mean(nn::Context& ctx) = 0;
  // Called if the step's gradients are not used: restores the state from before BeginStep.
  virtual void Skip(nn::Context&) {}
  virtual std::vector<ReducerState> State() const { return {}; }
  // Whether nothing is kept of the gradients beside themselves while they are reduced.
  virtual bool in_place() const { return false; }
  // Whether reducing gradients that are equal on all ranks may change them. If so, means of earlier micro-batches must
  // be kept out of the bucket, so that they are not reduced again. Returning true is always safe.
  virtual bool rounds() const { return true; }
  // Whether each element of the mean depends on this element of the ranks' gradients alone. If not, copies of an
  // element in different buckets, on other ranks of one copy of the model, get different means.
  virtual bool elementwise() const { return false; }
};

using MakeReducer = std::function<std::unique_ptr<Reducer>(nn::Context&, const Bucket&)>;

}  // namespace twofold
