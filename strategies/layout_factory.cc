#include "strategies/layout_factory.h"

#include <utility>
#include <vector>

#include "strategies/data_parallel/ddp.h"
#include "strategies/data_parallel/sharded.h"
#include "strategies/expert_parallel/experts.h"
#include "strategies/models/model_factory.h"

namespace twofold {
namespace {

using spec::Parallel;

Bytes MiBytes(double mib) { return Bytes(static_cast<int64_t>(mib * 1048576.0)); }

DdpOptions ToDdpOptions(const spec::Spec& spec) {
  return {.bucket = MiBytes(spec.parallel().bucket_mib()),
          .overlap = spec.parallel().overlap(),
          .gradient = ToDType(spec.train().precision().gradient()),
          .reduce_every_micro_batch = spec.parallel().reduce_every_micro_batch()};
}

WrapPolicy ToPolicy(const spec::Wrap& wrap) {
  switch (wrap.policy_case()) {
    case spec::Wrap::kModule: return WrapByKind(wrap.module());
    case spec::Wrap::kMinParameters: return WrapByParameterCount(wrap.min_parameters());
    case spec::Wrap::kPaths: return WrapByPath({wrap.paths().path().begin(), wrap.paths().path().end()});
    case spec::Wrap::POLICY_NOT_SET: break;
  }
  return nullptr;
}

// Selects a table that another pipeline stage also holds. As a unit of its own, it has equal shards on both stages.
bool IsSharedTable(const nn::Module& m, int64_t) {
  const std::vector<nn::Parameter*> own = m.Parameters();
  return own.size() == 1 && own[0]->shard_layout().parts[0].holders == kEmbeddingTag;
}

WrapPolicy PolicyOf(const Parallel& p) {
  WrapPolicy policy = ToPolicy(p.wrap());
  if (p.pp() > 1) policy = WrapEither(IsSharedTable, std::move(policy));
  if (p.ep() > 1) policy = WrapEither(WrapByKind(kExpertsKind), std::move(policy));
  return policy;
}

ShardedOptions::Stage ToStage(Parallel::Sharding sharding) {
  if (sharding == Parallel::SHARD_OPTIMIZER) return ShardedOptions::kOptimizer;
  return sharding == Parallel::SHARD_GRAD_OP ? ShardedOptions::kGradients : ShardedOptions::kParameters;
}

ShardedOptions::BackwardPrefetch ToPrefetch(Parallel::BackwardPrefetch prefetch) {
  if (prefetch == Parallel::BACKWARD_PRE) return ShardedOptions::kPre;
  return prefetch == Parallel::BACKWARD_POST ? ShardedOptions::kPost : ShardedOptions::kNone;
}

ShardedOptions ToShardedOptions(const spec::Spec& spec) {
  const Parallel& p = spec.parallel();
  return {.stage = ToStage(p.sharding()),
          .shard_group = p.sharding() == Parallel::HYBRID_SHARD ? static_cast<int>(p.shard_group()) : 0,
          .wrap = PolicyOf(p),
          .gradient = ToDType(spec.train().precision().gradient()),
          .reduce = ToDType(spec.train().precision().reduce()),
          .prefetch = p.prefetch(),
          .prefetch_limit = MiBytes(p.prefetch_limit_mib()),
          .reshard_after_forward = p.reshard_after_forward(),
          .pipeline_stage = p.pp() > 1,
          .backward_prefetch = ToPrefetch(p.backward_prefetch()),
          .reduce_every_micro_batch = p.reduce_every_micro_batch(),
          .overlap = p.overlap(),
          .offload = p.offload() == Parallel::OFFLOAD_ALL};
}

}  // namespace

std::unique_ptr<ParameterLayout> MakeLayout(nn::Context& ctx, std::unique_ptr<nn::Module> model,
                                            const ReplicaGroups& replicas, const spec::Spec& spec) {
  if (spec.parallel().sharding() == Parallel::NO_SHARD) {
    return std::make_unique<DistributedDataParallel>(ctx, std::move(model), replicas, ToDdpOptions(spec),
                                                     MeanReducers(ToDType(spec.train().precision().reduce())));
  }
  return std::make_unique<ShardedDataParallel>(ctx, std::move(model), replicas, ToShardedOptions(spec));
}

}  // namespace twofold
