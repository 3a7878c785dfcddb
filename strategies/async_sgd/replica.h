// A whole model on one rank that computes gradients, one batch after another, on whatever values its parameters have.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/data/distributed_sampler.h"
#include "strategies/micro_batches.h"
#include "strategies/model_parallel/layers.h"
#include "strategies/pipeline/executor.h"
#include "strategies/recorder.h"
#include "strategies/trainer.h"

namespace twofold {

// Used from the rank's thread. All arguments must outlive it.
class Replica {
 public:
  // Worker `worker` of options.mesh.dp, which take turns with the samples as the ranks of DDP do. Allocates parameters
  // and gradients. `draws`: parameters get their initial values. Throws OutOfMemory.
  Replica(RankContext& ctx, const TrainingOptions& options, const Samples& samples, Recorder& recorder, int worker,
          bool draws);

  // Computes the gradient of this worker's part of batch `batch`. Returns the mean loss over that part, for which the
  // host has waited.
  double Compute(int64_t batch);
  const optim::Slice& whole() const { return whole_; }  // all parameters, one after the other, and their gradients
  // This worker's part of the mean loss over the whole batch, one element.
  Tensor& loss() { return micro_batches_.loss(); }
  nn::Context& nn() { return nn_; }
  int64_t parameters() const { return whole_.data.numel(); }

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
