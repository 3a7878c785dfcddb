// Which layout of a model's parameters over the ranks that share the batch a run uses, and its options.
#pragma once

#include <memory>
#include <variant>

#include "strategies/data_parallel/ddp.h"
#include "strategies/data_parallel/sharded.h"

namespace twofold {

struct ReplicatedOptions {
  DdpOptions ddp;
  DType reduce = DType::kF32;  // type in which gradients are sent
};
using LayoutOptions = std::variant<ReplicatedOptions, ShardedOptions>;

// Takes ownership of the chunks; `ctx` and `replicas` must outlive the layout. Collective over `replicas`. Throws
// OutOfMemory.
std::unique_ptr<ParameterLayout> MakeLayout(nn::Context& ctx, Chunks chunks, const ReplicaGroups& replicas,
                                            const LayoutOptions& options);

}  // namespace twofold
