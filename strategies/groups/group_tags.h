// The tags by which parameters name the ranks that have something in common with this rank (nn::GroupTag), and the
// groups behind them.
#pragma once

#include <map>
#include <string_view>

#include "core/comm/process_group.h"
#include "core/nn/parameter.h"

namespace twofold {

// Within one copy of the model (ShardLayout::Part::holders). Sums of gradients are in the order of these numbers.
inline constexpr nn::GroupTag kTensorTag{1};     // the tensor-parallel group
inline constexpr nn::GroupTag kKeyValueTag{2};   // the ranks of that group that have the same key and value heads
inline constexpr nn::GroupTag kEmbeddingTag{3};  // the first and last stage of a pipeline, which share a table
// Among the ranks that share the batch (Parameter::replicas).
inline constexpr nn::GroupTag kExpertsTag{4};  // those that have the same experts
// All ranks that train on parts of one global batch, on all islands. If it is absent, there is one island.
inline constexpr nn::GroupTag kBatchTag{5};

// What the names of groups that are made from a tag's ranks begin with.
constexpr std::string_view NamePrefix(nn::GroupTag replicas) { return replicas == kExpertsTag ? "experts' " : ""; }

// Whether the ranks behind a tag are on different pipeline stages, which wait for each other's passes.
constexpr bool AcrossStages(nn::GroupTag holders) { return holders == kEmbeddingTag; }

// One rank's groups; they must outlive it.
class ReplicaGroups {
 public:
  // `everyone`: the ranks with equal copies of this rank's parameters that share the batch. `tagged`: the groups behind
  // tags. A tag that is absent or has a null group means no ranks in particular: as replicas, everyone; as holders,
  // this rank alone.
  ReplicaGroups(ProcessGroup& everyone, std::map<nn::GroupTag, ProcessGroup*> tagged = {})
      : all(everyone), tagged_(std::move(tagged)) {}

  // The ranks over which gradients of parameters with these replicas are averaged.
  ProcessGroup& Of(nn::GroupTag replicas) const {
    ProcessGroup* group = Find(replicas);
    return group == nullptr ? all : *group;
  }
  bool Knows(nn::GroupTag tag) const { return tagged_.contains(tag); }
  // The ranks of one copy of the model that hold the same elements. Null if no other rank does.
  ProcessGroup* HoldersOf(nn::GroupTag holders) const {
    ProcessGroup* group = Find(holders);
    return group == nullptr || group->size() == 1 ? nullptr : group;
  }

  ProcessGroup& all;

 private:
  ProcessGroup* Find(nn::GroupTag tag) const {
    const auto found = tagged_.find(tag);
    return found == tagged_.end() ? nullptr : found->second;
  }
  std::map<nn::GroupTag, ProcessGroup*> tagged_;
};

}  // namespace twofold
