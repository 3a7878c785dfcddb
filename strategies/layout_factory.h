// Which layout of a model's parameters over the ranks that share the batch a run uses, and its options.
#pragma once

#include <memory>
#include <variant>

#include "strategies/data_parallel/ddp.h"
#include "strategies/data_parallel/sharded.h"

namespace twofold {

struct LayoutOptions {
  std::variant<DdpOptions, ShardedOptions> kind;
  MakeReducer make_reducer;                 // how gradients become means; if empty, they are averaged in their own type
  MakeGather make_gather = PlainGathers();  // how ShardedOptions::kParameters gathers
  bool sharded() const { return std::holds_alternative<ShardedOptions>(kind); }
};

// Takes ownership of the chunks; `ctx` and `replicas` must outlive the layout. Collective over `replicas`. Throws
// OutOfMemory.
std::unique_ptr<ParameterLayout> MakeLayout(nn::Context& ctx, Chunks chunks, const ReplicaGroups& replicas,
                                            const LayoutOptions& options);

}  // namespace twofold
