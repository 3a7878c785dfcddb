// One rank's share of every training step: model, layout, optimizer and data, wired together for one mesh.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/data/distributed_sampler.h"
#include "strategies/context_parallel/sequence_shard.h"
#include "strategies/data_parallel/replica_statistics.h"
#include "strategies/data_parallel/shard_copy.h"
#include "strategies/local_update/local_update.h"
#include "strategies/micro_batches.h"
#include "strategies/model_parallel/gradient_norm.h"
#include "strategies/pipeline/stages.h"
#include "strategies/trainer.h"

namespace twofold {

// One rank's share of every training step.
class RankTrainer {
 public:
  // `codecs` and `routing` must outlive it.
  // `draws`: parameters get their initial values; else Own() must be filled in before the first step.
  RankTrainer(RankContext& ctx, const TrainingOptions& options, const Samples& samples, nn::CodecObserver& codecs,
              nn::RoutingObserver& routing, bool draws = true);
  int64_t parameters() const;  // of this rank's part of the model
  const LossScaler& scaler() const { return scaler_; }
  // Called before and after each of a pipeline's actions is launched; `begins` tells which.
  void OnAction(std::function<void(bool begins)> launched) { launched_ = std::move(launched); }
  // Returns the loss, the mean over the global batch. Null if `reads_loss` is false: then the host does not wait.
  std::optional<double> Step(int64_t step, bool reads_loss);
  ValidationResult Validate();  // only if the options ask for validations
  // All return the bytes that this rank has read, or would have read. TryResume: errors as of checkpoint::Load.
  absl::StatusOr<Bytes> TryResume(const checkpoint::Opened& opened);
  Bytes Resume(const checkpoint::Opened& opened);                     // throws instead
  Bytes ResumeWithoutFile(int64_t updates);                           // in a simulation that has written none
  checkpoint::Saver* saver() { return saver_ ? &*saver_ : nullptr; }  // null if the options ask for no checkpoints
  // The state to save that is not in tensors. If an elastic step is in progress: as it was before that.
  std::map<std::string, double> Scalars();
  void SetScalars(const std::map<std::string, double>& scalars);

  // ---- Elastic training (train_elastic.h) ----
  //
  // `commit` is called in every step when all that the update needs is there: gradients and the factor. What follows it
  // is local. If it throws, the step has not been done, and the trainer is either left as it is (Abandon), or does the
  // update (FinishUpdate) because other ranks have done theirs.
  void CommitWith(std::function<void()> commit) { commit_ = std::move(commit); }
  bool prepared() const { return prepared_.has_value(); }  // a step waits in `commit`, or has failed there
  void FinishUpdate();
  int64_t steps_done() const { return steps_done_; }
  void set_steps_done(int64_t steps) { steps_done_ = steps; }
  std::optional<double> last_loss() const { return last_loss_; }  // of the last step that was prepared
  void Abandon();
  // The samples of all steps before a step, if their number is not the same in all steps.
  void CountSamples(std::function<int64_t(int64_t step)> before) { samples_before_ = std::move(before); }
  // What this rank holds of parameters, optimizer state and buffers, copies of other ranks' shards included.
  std::vector<checkpoint::LocalPiece> Held();
  std::vector<checkpoint::LocalPiece> Own();  // the same without copies
  // What gradient compression keeps, before the step that Abandon took back.
  std::vector<NamedState> ReducerStates() const { return layout_->ReducerStates(); }
  void Restored(int64_t updates);  // Own() was filled in: publishes it, and refreshes the copies
  int64_t updates() const { return optimizer_->updates(); }

 private:
  // The shapes of this stage's messages for micro-batches of `samples`.
  std::vector<pipeline::Boundaries> Boundaries(int64_t samples) const {
    return BoundariesOf(*options_.model, parts_, options_.Share(samples));
  }
  void RunMicroBatches(int64_t step, std::span<const int64_t> samples);
  Work BeginLossSum(bool reads_loss);
  Work SpreadLoss(Work sum);
  Predictions Predict(nn::Context& ctx, const Dataset& data, std::span<const int64_t> indices);
  std::optional<Tensor> GradientFactor();
  bool NeedsNorm() const { return options_.clip_norm > 0 || scaler_.dynamic(); }
  Tensor SquaredNorm();
  std::optional<double> ReadLoss(bool reads_loss);
  struct Prepared {
    int64_t step;
    double lr;
    std::optional<Tensor> factor;  // nullopt: the update is skipped
  };
  void ApplyUpdate();
  void KeepState();

  std::optional<OwnerScope> setup_;  // while this is constructed
  RankContext& rank_;
  const TrainingOptions& options_;
  Device& device_;
  DeviceMesh mesh_;
  ProcessGroup &replicas_, &stages_, &batch_;
  const std::unique_ptr<Dataset> shard_, validation_shard_;  // null if the samples are used whole
  const std::unique_ptr<ReplicaStatistics> statistics_;
  nn::Context nn_;
  ParallelLayers layers_;
  const std::unique_ptr<nn::Loss> loss_function_;
  const std::vector<nn::ModelPart> parts_;    // this stage's
  const std::unique_ptr<ProcessGroup> ends_;  // first and last stage if they share a table; else null
  const ReplicaGroups groups_;                // the ranks that hold what this one holds
  std::unique_ptr<ParameterLayout> layout_;
  GradientNorm norm_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<LocalUpdate> local_update_;
  DistributedSampler sampler_;
  const std::vector<pipeline::Action> actions_, forwards_;  // of a training step; of a forward pass alone
  pipeline::Executor executor_;
  LossScaler scaler_;
  std::optional<MicroBatches> micro_batches_;
  Tensor unscaling_;  // 1 / the fixed loss scale; empty if the scale is 1 or dynamic
  std::optional<Validation> validation_;
  std::optional<checkpoint::Saver> saver_;
  std::optional<ShardCopy> copy_;
  std::function<int64_t(int64_t)> samples_before_;  // null: all steps have the same number of samples
  std::function<void()> commit_;                    // null: the run is not elastic
  std::function<void(bool)> launched_;              // null: nobody asks
  int64_t steps_done_ = 0;
  bool in_step_ = false;  // a step has begun and was not committed
  std::optional<double> last_loss_;
  std::optional<Prepared> prepared_;    // the update to do
  LossScaler::State scaler_before_;     // this step,
  std::vector<Tensor> buffers_before_;  // and the buffers; kept if the run is elastic
};

}  // namespace twofold
