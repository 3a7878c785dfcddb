#include "strategies/replica.h"

#include <cmath>
#include <utility>

#include "core/base/check.h"
#include "strategies/data_parallel/sharded.h"
#include "strategies/pipeline/stages.h"

namespace twofold {
namespace {

DistributedSampler MakeSampler(const TrainingOptions& options, const Dataset& data, int worker) {
  absl::StatusOr<DistributedSampler> sampler = DistributedSampler::Make({.dataset_size = data.size(),
                                                                         .replicas = options.mesh.dp,
                                                                         .rank = worker,
                                                                         .block = options.global_batch,
                                                                         .shuffle = options.shuffle,
                                                                         .seed = options.seed,
                                                                         .set_epoch = options.set_epoch});
  TWOFOLD_CHECK(sampler.ok(), sampler.status().message());  // the options were validated
  return *std::move(sampler);
}

// Parameters and gradients as one flat tensor each: a sharded layout over one rank.
std::unique_ptr<ParameterLayout> MakeFlatLayout(nn::Context& ctx, const TrainingOptions& options, nn::Layers& layers,
                                                const ReplicaGroups& groups) {
  const DType gradient = options.async_sgd->gradient;
  return std::make_unique<ShardedDataParallel>(
      ctx, MakeStage(*options.model, options.types, options.parts, layers, options.recomputation), groups,
      ShardedOptions{.stage = ShardedOptions::kOptimizer, .gradient = gradient, .reduce = gradient});
}

}  // namespace

Replica::Replica(RankContext& ctx, const TrainingOptions& options, const Samples& samples, Recorder& recorder,
                 int worker, bool draws)
    : options_(options),
      alone_(ctx.world().Alone("worker")),
      mesh_(*alone_, MeshShape()),
      nn_{.device = ctx.device(),
          .stream = ctx.device().compute(),
          .draws = draws,
          .seed = options.seed,
          .codecs = &recorder,
          .routing = &recorder},
      layers_(mesh_, options.layers),
      loss_function_(MakeLoss(*options.model, options.types, layers_)),
      groups_(*alone_),
      layout_(MakeFlatLayout(nn_, options, layers_, groups_)),
      whole_(layout_->Slices().at(0)),
      sampler_(MakeSampler(options, samples.training, worker)),
      actions_(pipeline::ActionsOf(options.schedule, options.pipeline, 0)),
      boundaries_(BoundariesOf(*options.model, options.parts, options.Share(options.micro_batch))),
      executor_(ctx, mesh_, options.executor),
      micro_batches_(nn_, *layout_, options.parts, *loss_function_, samples.training,
                     MicroBatches::Options{.samples = options.micro_batch,
                                           .accumulation = options.pipeline.micro_batches,
                                           .replicas = options.mesh.dp,
                                           .dp = options.mesh.dp,
                                           .dp_rank = worker,
                                           .dtype = options.types.parameter,
                                           .tokens = options.model->input().kind == ModelInput::kTokens}) {
  TWOFOLD_CHECK_EQ(layout_->Slices().size(), size_t{1});
}

double Replica::Compute(int64_t batch) {
  const std::vector<int64_t> indices = sampler_.BatchAt(batch);
  nn_.step = batch;
  layout_->BeginStep(options_.loss_scale.scale);
  micro_batches_.BeginStep(indices, options_.loss_scale.scale, options_.pipeline.micro_batches);
  executor_.Execute(
      actions_, options_.pipeline.micro_batches, boundaries_, options_.types.parameter,
      [this](const pipeline::Action& action, Tensor in) { return micro_batches_.Run(action, std::move(in)); });
  layout_->FinishGradients();
  const double stand_in = std::log(static_cast<double>(options_.model->input().classes)) / options_.mesh.dp;
  return nn_.device.Item(micro_batches_.loss(), StandIn{stand_in, "loss"}) * options_.mesh.dp;
}

}  // namespace twofold
