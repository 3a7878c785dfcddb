#include "strategies/layout_factory.h"

#include <utility>

namespace twofold {

std::unique_ptr<ParameterLayout> MakeLayout(nn::Context& ctx, Chunks chunks, const ReplicaGroups& replicas,
                                            const LayoutOptions& options) {
  if (const auto* sharded = std::get_if<ShardedOptions>(&options))
    return std::make_unique<ShardedDataParallel>(ctx, std::move(chunks), replicas, *sharded);
  const auto& [ddp, reduce] = std::get<ReplicatedOptions>(options);
  return std::make_unique<DistributedDataParallel>(ctx, std::move(chunks), replicas, ddp, MeanReducers(reduce));
}

}  // namespace twofold
