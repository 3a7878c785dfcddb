#include "strategies/layout_factory.h"

#include <utility>

namespace twofold {

std::unique_ptr<ParameterLayout> MakeLayout(nn::Context& ctx, Chunks chunks, const ReplicaGroups& replicas,
                                            const LayoutOptions& options) {
  if (const auto* sharded = std::get_if<ShardedOptions>(&options.kind))
    return std::make_unique<ShardedDataParallel>(ctx, std::move(chunks), replicas, *sharded, options.make_reducer,
                                                 options.make_gather);
  return std::make_unique<DistributedDataParallel>(ctx, std::move(chunks), replicas, std::get<DdpOptions>(options.kind),
                                                   options.make_reducer);
}

}  // namespace twofold
