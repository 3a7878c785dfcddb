#include "strategies/trainer.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "core/base/errors.h"
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "core/data/distributed_sampler.h"
#include "core/optim/clip.h"
#include "strategies/checkpoint/agree.h"
#include "strategies/checkpoint/on_signal.h"
#include "strategies/context_parallel/sequence_shard.h"
#include "strategies/data_parallel/replica_statistics.h"
#include "strategies/local_update/local_update.h"
#include "strategies/micro_batches.h"
#include "strategies/model_parallel/gradient_norm.h"
#include "strategies/pipeline/stages.h"

namespace twofold {
namespace {

DistributedSampler MakeSampler(const TrainingOptions& options, const Dataset& data, const DeviceMesh& mesh) {
  absl::StatusOr<DistributedSampler> sampler = DistributedSampler::Make({.dataset_size = data.size(),
                                                                         .replicas = mesh.shape().dp,
                                                                         .rank = mesh.Coordinate(Axis::kDp),
                                                                         .block = options.global_batch,
                                                                         .shuffle = options.shuffle,
                                                                         .seed = options.seed});
  TWOFOLD_CHECK(sampler.ok(), sampler.status().message());  // the options were validated
  return *std::move(sampler);
}

// With context parallelism, this rank's tokens of every sample; else null.
std::unique_ptr<Dataset> ShardOf(const Dataset* data, const DeviceMesh& mesh) {
  if (data == nullptr || mesh.shape().cp == 1) return nullptr;
  return MakeSequenceShard(*data, {.rank = mesh.Coordinate(Axis::kCp), .ranks = mesh.shape().cp});
}

// Null if this rank shares no table with another stage.
std::unique_ptr<ProcessGroup> MakeGroupOfEnds(const Model& model, DeviceMesh& mesh) {
  if (!model.shape().tied || mesh.shape().pp == 1) return nullptr;
  std::unique_ptr<ProcessGroup> ends = mesh.NewGroups(EndsOf(mesh.shape()), "embedding");
  return ends->size() > 1 ? std::move(ends) : nullptr;
}

// Null if the model has no synchronized statistics.
std::unique_ptr<ReplicaStatistics> MakeStatistics(const Model& model, Device& device, DeviceMesh& mesh) {
  if (!model.synchronizes_statistics()) return nullptr;
  return std::make_unique<ReplicaStatistics>(device, mesh.NewGroup(MeshGroup::kReplicas, "batch norm"));
}

// One rank's share of every training step.
class Trainer {
 public:
  // `codecs` must outlive it.
  Trainer(RankContext& ctx, const TrainingOptions& options, const Samples& samples, nn::CodecObserver& codecs);
  int64_t parameters() const;  // of this rank's part of the model
  const LossScaler& scaler() const { return scaler_; }
  // Returns the loss, the mean over the global batch. Null if `reads_loss` is false: then the host does not wait.
  std::optional<double> Step(int64_t step, bool reads_loss);
  ValidationResult Validate();  // only if the options ask for validations
  void Resume(const checkpoint::Opened& opened);
  checkpoint::Saver* saver() { return saver_ ? &*saver_ : nullptr; }  // null if the options ask for no checkpoints
  std::map<std::string, double> Scalars();                            // the state to save that is not in tensors

 private:
  // The shapes of this stage's messages for micro-batches of `samples`.
  std::vector<pipeline::Boundaries> Boundaries(int64_t samples) const {
    return BoundariesOf(*options_.model, parts_, options_.Share(samples));
  }
  Work BeginLossSum(bool reads_loss);
  Work SpreadLoss(Work sum);
  Predictions Predict(nn::Context& ctx, const Dataset& data, std::span<const int64_t> indices);
  std::optional<Tensor> GradientFactor();
  bool NeedsNorm() const { return options_.clip_norm > 0 || scaler_.dynamic(); }
  Tensor SquaredNorm();

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
};

// One micro-batch through all chunks of a stage.
std::vector<pipeline::Action> ForwardsOf(int chunks) {
  std::vector<pipeline::Action> actions;
  for (int c = 0; c < chunks; ++c) actions.push_back({pipeline::Action::kForward, 0, c});
  return actions;
}

Trainer::Trainer(RankContext& ctx, const TrainingOptions& options, const Samples& samples, nn::CodecObserver& codecs)
    : rank_(ctx),
      options_(options),
      device_(ctx.device()),
      mesh_(ctx.world(), options.mesh),
      replicas_(mesh_.Group(MeshGroup::kReplicas)),
      stages_(mesh_.Group(MeshGroup::kPp)),
      batch_(mesh_.Group(MeshGroup::kBatch)),
      shard_(ShardOf(&samples.training, mesh_)),
      validation_shard_(ShardOf(samples.validation, mesh_)),
      statistics_(MakeStatistics(*options.model, device_, mesh_)),
      nn_{.device = device_,
          .stream = device_.compute(),
          .seed = options.seed,
          .statistics = statistics_.get(),
          .codecs = &codecs},
      layers_(mesh_, options.layers),
      loss_function_(MakeLoss(*options.model, layers_)),
      parts_(PartsOfStage(options.parts, mesh_.Coordinate(Axis::kPp), mesh_.shape().pp)),
      ends_(MakeGroupOfEnds(*options.model, mesh_)),
      groups_(replicas_, {{kTensorTag, &layers_.tensor_sums()},
                          {kKeyValueTag, layers_.key_value_sums()},
                          {kEmbeddingTag, ends_.get()},
                          {kExpertsTag, &mesh_.Group(MeshGroup::kExpertReplicas)},
                          {kBatchTag, &batch_}}),
      layout_(MakeLayout(nn_, MakeStage(*options.model, options.types, parts_, layers_, options.recomputation), groups_,
                         options.layout)),
      norm_(nn_, *layout_, mesh_.Group(MeshGroup::kModel), &mesh_.Group(MeshGroup::kEp)),
      optimizer_(options.make_optimizer()),
      sampler_(MakeSampler(options, samples.training, mesh_)),
      actions_(pipeline::ActionsOf(options.schedule, options.pipeline, mesh_.Coordinate(Axis::kPp))),
      forwards_(ForwardsOf(options.pipeline.chunks)),
      executor_(ctx, mesh_, options.executor),
      scaler_(options.loss_scale) {
  if (options.offload) {
    ctx.AddNote("exposed communication includes waits for transfers to and from the host's memory");
  }
  const std::vector<optim::Slice> slices = layout_->Slices();
  ProcessGroup& islands = mesh_.Group(MeshGroup::kIslands);
  if (options.local_update) {
    LocalUpdate::Begin(nn_, slices, islands);
    layout_->PublishUpdate();
  }
  optimizer_->Attach(nn_, slices);
  layout_->Attached(*optimizer_);
  if (options.local_update) local_update_.emplace(nn_, slices, *optimizer_, islands, groups_, *options.local_update);
  micro_batches_.emplace(nn_, *layout_, parts_, *loss_function_, shard_ ? *shard_ : samples.training,
                         MicroBatches::Options{.samples = options.micro_batch,
                                               .accumulation = options.pipeline.micro_batches,
                                               .replicas = batch_.size(),
                                               .dp = mesh_.shape().dp,
                                               .dp_rank = mesh_.Coordinate(Axis::kDp),
                                               .dtype = options.types.parameter,
                                               .tokens = options.model->input().kind == ModelInput::kTokens});
  if (NeedsNorm()) {
    layers_.TellOwnersApart();
    norm_.TellShardsApart();
  }
  if (!scaler_.dynamic() && scaler_.scale() != 1) {
    unscaling_ = device_.NewTensor(Shape{1}, DType::kF32, Category::kOther);
    nn_.Launch(ops::Fill{.out = unscaling_, .value = 1 / scaler_.scale()});
  }
  if (options.validation) {
    TWOFOLD_CHECK(samples.validation != nullptr, "there are samples to validate on");
    validation_.emplace(
        nn_, mesh_, validation_shard_ ? *validation_shard_ : *samples.validation, *loss_function_,
        [this](nn::Context& c, const Dataset& data, std::span<const int64_t> indices) {
          return Predict(c, data, indices);
        },
        options.validation->options);
  }
  if (options.saving) {
    TWOFOLD_CHECK(!options.saving->options.folder.empty(), "checkpoints have a place");
    saver_.emplace(ctx, mesh_, *layout_, *optimizer_, options.saving->options, options.run.metadata,
                   local_update_ ? &*local_update_ : nullptr);
  }
}

int64_t Trainer::parameters() const {
  int64_t count = 0;
  for (const nn::Parameter* p : layout_->Parameters()) count += p->numel();
  return count;
}

void Trainer::Resume(const checkpoint::Opened& opened) {
  checkpoint::Load(rank_, opened, *layout_, *optimizer_, local_update_ ? &*local_update_ : nullptr);
  const std::map<std::string, double>& scalars = opened.manifest.metadata.scalars;
  if (scalars.contains("loss_scale.scale")) {
    scaler_.set_state(LossScaler::State::Load(
        {scalars.at("loss_scale.scale"), scalars.at("loss_scale.good_steps"), scalars.at("loss_scale.skipped")}));
  }
  const auto best = scalars.find("validation.best"), bad_validations = scalars.find("validation.in_vain");
  if (!validation_ || bad_validations == scalars.end()) return;
  validation_->patience().Restore({.any = best != scalars.end(),
                                   .best = best != scalars.end() ? best->second : 0,
                                   .bad_validations = static_cast<int64_t>(bad_validations->second)});
}

std::map<std::string, double> Trainer::Scalars() {
  std::map<std::string, double> scalars;
  if (scaler_.dynamic()) {
    const std::array<double, 3> state = scaler_.state().Save();
    scalars = {{"loss_scale.scale", state[0]}, {"loss_scale.good_steps", state[1]}, {"loss_scale.skipped", state[2]}};
  }
  if (local_update_) scalars[checkpoint::kIslandsScalar] = mesh_.shape().islands;
  if (validation_) {
    const Patience::State state = validation_->patience().state();
    if (state.any) scalars["validation.best"] = state.best;
    scalars["validation.in_vain"] = static_cast<double>(state.bad_validations);
  }
  return scalars;
}

// Averages the buffers first, so that all ranks evaluate with the same running statistics.
ValidationResult Trainer::Validate() {
  layout_->AverageBuffers();
  return validation_->Run([this] { rank_.CheckInterrupt(); });
}

// Runs forward only, through all stages.
Predictions Trainer::Predict(nn::Context& ctx, const Dataset& data, std::span<const int64_t> indices) {
  Predictions predictions;
  executor_.Execute(forwards_, 1, Boundaries(static_cast<int64_t>(indices.size())), options_.types.parameter,
                    [&](const pipeline::Action& action, Tensor in) {
                      return micro_batches_->Predict(ctx, action.chunk, data, indices, std::move(in), predictions);
                    });
  return predictions;
}

// The factor by which the update multiplies gradients; an empty tensor means 1. Returns nullopt if the gradients are
// not finite and the update must be skipped.
std::optional<Tensor> Trainer::GradientFactor() {
  const double clip_norm = options_.clip_norm, scale = scaler_.scale();
  if (!NeedsNorm()) return unscaling_;
  const Tensor squares = SquaredNorm();
  if (scaler_.dynamic() && !scaler_.Update(std::isfinite(device_.Item(squares, StandIn{0, "found-inf"}))))
    return std::nullopt;
  return optim::ClipFactor(nn_, squares, clip_norm > 0 ? clip_norm : std::numeric_limits<double>::infinity(),
                           1 / scale);
}

// The squared norm of the model's gradients. Ranks with the same gradients need not communicate it. But if it decides
// whether the step is skipped, it must be equal on all of them to the last bit, so it is averaged over the replicas.
Tensor Trainer::SquaredNorm() {
  Tensor squares = norm_.Squared();
  const ProcessGroup* holders = layout_->shard_group();
  const int agreeing = holders != nullptr ? holders->size() : 1;
  if (scaler_.dynamic() && agreeing < replicas_.size())
    replicas_.AllReduce(squares, ReduceOp::kAvg).WaitOn(device_.compute());
  return squares;
}

// The mean over the global batch is a sum over the replicas of the last stage, on all islands. Islands exchange it only
// in steps in which the host reads it.
Work Trainer::BeginLossSum(bool reads_loss) {
  if (stages_.rank() + 1 < stages_.size()) return Work();
  ProcessGroup& group = reads_loss ? batch_ : replicas_;
  return group.AllReduce(micro_batches_->loss(), ReduceOp::kSum);
}

// The last stage broadcasts it to the others.
Work Trainer::SpreadLoss(Work sum) {
  if (stages_.size() == 1) return sum;
  sum.WaitOn(device_.compute());
  return stages_.Broadcast(micro_batches_->loss(), stages_.size() - 1);
}

std::optional<double> Trainer::Step(int64_t step, bool reads_loss) {
  const std::vector<int64_t> indices = sampler_.BatchAt(step);
  nn_.step = step;
  layout_->BeginStep(scaler_.scale());
  micro_batches_->BeginStep(indices, scaler_.scale());
  executor_.Execute(
      actions_, options_.pipeline.micro_batches, Boundaries(options_.micro_batch), options_.types.parameter,
      [this](const pipeline::Action& action, Tensor in) { return micro_batches_->Run(action, std::move(in)); });
  Work loss = BeginLossSum(reads_loss);  // overlaps with the optimizer
  layout_->FinishGradients();
  loss = SpreadLoss(std::move(loss));
  if (const std::optional<Tensor> factor = GradientFactor()) {
    optimizer_->Step(nn_, optimizer_->learning_rate() * optim::Factor(options_.learning_rate, step), *factor);
  } else {
    layout_->SkipUpdate();
  }
  if (local_update_) local_update_->AfterUpdate(step + 1);
  layout_->PublishUpdate();
  loss.WaitOn(device_.compute());
  if (!reads_loss) return std::nullopt;
  return device_.Item(micro_batches_->loss(),
                      StandIn{std::log(static_cast<double>(options_.model->input().classes)), "loss"});
}

// Every `every_steps` steps, and after the last step.
bool IsValidated(const TrainingOptions& options, int64_t step) {
  if (!options.validation) return false;
  return (step + 1) % options.validation->every_steps == 0 || step + 1 == options.steps;
}

bool IsSaved(const TrainingOptions& options, int64_t step, bool last) {
  if (!options.saving) return false;
  const std::optional<int64_t> every = options.saving->every_steps;
  return last || step + 1 == options.steps || (every && (step + 1) % *every == 0);
}

// Validations and checkpoints wait for the device anyway.
bool ReadsLoss(const TrainingOptions& options, int64_t step) {
  return (step + 1) % options.report_loss_every == 0 || step + 1 == options.steps || IsValidated(options, step) ||
         IsSaved(options, step, /*last=*/false);
}

// The checkpoint that the run resumes from. Nullopt if it starts at step 0.
std::optional<checkpoint::Opened> OpenResumed(RankContext& ctx, const TrainingOptions& options,
                                              const checkpoint::Opened* read) {
  if (!options.resume) return std::nullopt;
  checkpoint::Opened opened = checkpoint::Agree(ctx, *options.resume, options.run, read);
  if (ctx.rank() != 0) return opened;
  ctx.AddNote(StrCat("resumed from ", opened.path, ", after step ", opened.manifest.metadata.step));
  for (const std::string& bad : opened.passed_over) ctx.AddNote(StrCat("skipped an unusable checkpoint: ", bad));
  for (std::string& note : checkpoint::Differences(opened.manifest, options.run)) ctx.AddNote(std::move(note));
  return opened;
}

}  // namespace

std::string TrainRank(RankContext& ctx, const TrainingOptions& options, const Samples& samples,
                      const std::function<void(const StepProgress&)>& progress,
                      const std::function<int64_t(int64_t step)>& next, const checkpoint::Opened* read) {
  const std::optional<checkpoint::Opened> resumed = OpenResumed(ctx, options, read);
  const int64_t first_step = resumed ? resumed->manifest.metadata.step : 0;
  Recorder recorder(ctx, options.recorder, first_step);
  // If this rank fails, the record of what it did until then is kept.
  ctx.SetPartialResultSource([&] { return recorder.PartialRecord(); },
                             [&] { return recorder.RecordWithoutTimeLine(); });
  absl::Cleanup keep = [&] {
    ctx.SetPartialResultSource(nullptr);
    ctx.SetPartialResult(recorder.PartialRecord());
  };

  Trainer trainer(ctx, options, samples, recorder);
  if (resumed) trainer.Resume(*resumed);
  const int64_t skipped_before = trainer.scaler().state().skipped;
  recorder.SetParameters(trainer.parameters());
  ctx.world().Barrier().Wait();
  recorder.IsSetUp();
  StepProgress done{.step = first_step, .steps = options.steps, .first_step = first_step};
  const auto tell = [&] {
    if (ctx.rank() == 0 && progress) progress(done);
  };
  const auto note_saved = [&] {
    for (const checkpoint::Saved& saved : trainer.saver()->Poll()) {
      recorder.AddCheckpoint(saved);
      done.saved = &saved;
      tell();
      done.saved = nullptr;
    }
  };
  int64_t saved_step = first_step;
  const auto save = [&](int64_t steps_done) {
    recorder.Pause();
    trainer.saver()->Save(saved_step = steps_done, trainer.Scalars());
    recorder.Resume();
  };
  bool asked_to_end = false;
  for (int64_t step = first_step; step < options.steps; ++step) {
    ctx.CheckInterrupt();
    if (next) step = next(step);
    asked_to_end = options.saving && options.saving->on_signal && !ctx.MayBegin(step);
    if (asked_to_end) break;
    recorder.BeginStep(step);
    const std::optional<double> loss = trainer.Step(step, ReadsLoss(options, step));
    recorder.EndStep(loss);
    recorder.SetSkipped(trainer.scaler().state().skipped - skipped_before, trainer.scaler().scale());
    done.step = step + 1, done.seconds = recorder.last_step().value();
    if (loss) done.loss = *loss, done.loss_step = done.step;
    tell();
    bool stop = false;
    if (IsValidated(options, step)) {
      recorder.BeginValidation();
      const ValidationResult result = trainer.Validate();
      recorder.EndValidation(step + 1, result);
      done.validation = &result;
      tell();
      done.validation = nullptr;
      stop = result.stop;
    }
    if (IsSaved(options, step, stop)) save(step + 1);
    if (trainer.saver() != nullptr) note_saved();
    if (stop) break;
  }
  if (asked_to_end) recorder.CatchUp();
  if (asked_to_end && done.step > saved_step) save(done.step);
  if (trainer.saver() != nullptr) {
    recorder.Pause();
    trainer.saver()->Finish();
    note_saved();
  }
  if (asked_to_end) checkpoint::EndAsAsked(ctx, done.step, done.step > first_step);
  std::move(keep).Cancel();
  ctx.SetPartialResultSource(nullptr);
  return recorder.Record();
}

}  // namespace twofold
