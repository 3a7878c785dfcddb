// A whole model on one rank, as the workers of asynchronous SGD have it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/data/distributed_sampler.h"
#include "strategies/async_sgd/worker_parts.h"
#include "strategies/micro_batches.h"
#include "strategies/model_parallel/layers.h"
#include "strategies/pipeline/executor.h"
#include "strategies/recorder.h"
#include "strategies/trainer.h"

namespace twofold {

// Used from the rank's thread. All arguments must outlive it.
class Replica final : public GradientSource {
 public:
  // Worker `worker` of options.mesh.dp, which take turns with the samples as the ranks of DDP do. Allocates parameters
  // and gradients. `draws`: parameters get their initial values. Throws OutOfMemory.
  Replica(RankContext& ctx, const TrainingOptions& options, const Samples& samples, Recorder& recorder, int worker,
          bool draws);

  double Compute(int64_t batch) override;
  const optim::Slice& whole() const override { return whole_; }
  Tensor& loss() override { return micro_batches_.loss(); }
  nn::Context& nn() override { return nn_; }

 private:
  const TrainingOptions& options_;
  const std::unique_ptr<ProcessGroup> alone_;
  DeviceMesh mesh_;
  nn::Context nn_;
  ParallelLayers layers_;
  const std::unique_ptr<nn::Loss> loss_function_;
  const ReplicaGroups groups_;
  const std::unique_ptr<ParameterLayout> layout_;
  const optim::Slice whole_;
  DistributedSampler sampler_;
  const std::vector<pipeline::Action> actions_;
  const std::vector<pipeline::Boundaries> boundaries_;
  pipeline::Executor executor_;
  MicroBatches micro_batches_;
};

}  // namespace twofold
