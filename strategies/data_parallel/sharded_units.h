// The units of a sharded layout: parts of a model whose parameters are gathered, freed and reduced together. A unit
// holds the parameters of its module that no unit inside it holds.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/comm/process_group.h"
#include "core/nn/module.h"
#include "strategies/data_parallel/flat_parameter.h"
#include "strategies/data_parallel/parameter_gather.h"
#include "strategies/data_parallel/reducer.h"
#include "strategies/data_parallel/wrapping.h"

namespace twofold {

// How the ranks of a sharing are divided: every `shards` consecutive ranks share one copy. Of these, every
// `gather_near` (`reduce_near`) consecutive ranks gather (reduce) among themselves first; 0: none do.
struct SharingSizes {
  int shards = 1, gather_near = 0, reduce_near = 0;
};

// The ranks that share the parameters of a unit: N = shards() ranks hold one shard each; R = replicas() such groups
// exist.
struct Sharing {
  // Collective over `group`. `prefix`: what the groups' names begin with.
  Sharing(ProcessGroup& group, const SharingSizes& sizes, std::string_view prefix);
  int64_t shards() const { return gather->size(); }
  int64_t replicas() const { return replicate == nullptr ? 1 : replicate->size(); }
  ReductionGroups reduction() const { return {reduce.get(), replicate.get(), reduce_near.get(), reduce_far.get()}; }
  std::unique_ptr<ProcessGroup> gather, reduce, replicate;
  // Null unless asked for. Ranks of reduce_far are at the same place of their reduce_near.
  std::unique_ptr<ProcessGroup> gather_near, reduce_near, reduce_far;
};

struct ShardedUnit {
  nn::Module* module = nullptr;
  std::string name;  // its path; "root" if it is the only chunk; "chunk 1" of several
  const Sharing* sharing = nullptr;
  bool root = false;
  bool stays = false;                       // gathered from forward to backward: its backward pass may be the first
  std::optional<FlatParameter> flat;        // none: all its parameters are in units inside it
  Tensor shard, gradient_shard;             // what this rank keeps; views into the whole tensors if those are kept
  Tensor parameters, gradients;             // whole and padded; empty while this rank does not hold them
  std::unique_ptr<ParameterGather> gather;  // how the parameters are gathered; null if they are kept
  Work gathered;                            // the message that brings them
  bool gathering = false;
  bool used = false;                 // has computed since it was gathered, so it does not count as gathered ahead
  bool reduced = false;              // the reduction of the step's last micro-batch has started
  size_t chunk = 0;                  // index of the stage's chunk that the unit is in
  size_t forward = 0, backward = 0;  // its places in ShardedUnits::forward, which number its bucket, and backward
  size_t backward_last = 0;          // place in ShardedUnits::backward of the last unit inside this one
};

// What is called around a unit's passes.
class UnitObserver {
 public:
  virtual ~UnitObserver() = default;
  virtual void BeforeForward(ShardedUnit& unit) = 0;
  virtual void BeforeForwardAgain(ShardedUnit& unit) = 0;  // recomputation, within a backward pass
  virtual void AfterForward(ShardedUnit& unit, bool training) = 0;
  // The two halves of a backward pass may be far apart, with passes of other units in between. The first half needs the
  // parameters, the second the gradients.
  virtual void BeforeBackwardInput(ShardedUnit& unit) = 0;
  virtual void AfterBackwardInput(ShardedUnit& unit) = 0;
  virtual void BeforeBackwardWeights(ShardedUnit& unit) = 0;
  virtual void AfterBackwardWeights(ShardedUnit& unit) = 0;
};

// The units of the chunks of a model that one rank holds, with wrappers around their modules.
class ShardedUnits {
 public:
  using SharingOf = absl::FunctionRef<const Sharing&(nn::GroupTag)>;
  // Wraps the units that `policy` selects (may be empty), and each of `chunks`; a single one is the root. `last_stays`:
  // the last unit in forward order, and all around it, stay gathered until their backward pass, as the root does. This
  // object and `observer` must outlive the use of the chunks. All parameters of a unit must have the same sharing.
  ShardedUnits(std::span<std::unique_ptr<nn::Module>> chunks, const WrapPolicy& policy, SharingOf sharing_of,
               bool last_stays, UnitObserver& observer);

  // Those with parameters of their own, in the order in which they compute. Both orders start at a chunk's own unit;
  // backward visits chunks and children from the last to the first.
  const std::vector<ShardedUnit*>& forward() const { return forward_; }
  const std::vector<ShardedUnit*>& backward() const { return backward_; }

 private:
  ShardedUnit* UnitOf(const nn::Module& module) const;
  void CollectForward(const nn::Module& module, size_t chunk);
  void CollectBackward(const nn::Module& module);

  std::vector<std::unique_ptr<ShardedUnit>> units_;
  std::map<const nn::Module*, ShardedUnit*> unit_of_;  // by wrapper; those with parameters of their own
  std::vector<ShardedUnit*> forward_, backward_;
};

}  // namespace twofold
