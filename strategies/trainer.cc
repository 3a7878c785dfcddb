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
#include "strategies/checkpoint/load.h"
#include "strategies/checkpoint/save.h"
#include "strategies/context_parallel/sequence_shard.h"
#include "strategies/data_parallel/replica_statistics.h"
#include "strategies/layout_factory.h"
#include "strategies/loss_scaler.h"
#include "strategies/mesh_of.h"
#include "strategies/micro_batches.h"
#include "strategies/model_parallel/gradient_norm.h"
#include "strategies/model_parallel/layers.h"
#include "strategies/models/model_factory.h"
#include "strategies/models/recompute.h"
#include "strategies/pipeline/executor.h"
#include "strategies/pipeline/stages.h"
#include "strategies/recorder.h"
#include "strategies/validation.h"

namespace twofold {
namespace {

DistributedSampler MakeSampler(const spec::Train& train, const Dataset& data, const DeviceMesh& mesh) {
  absl::StatusOr<DistributedSampler> sampler = DistributedSampler::Make({.dataset_size = data.size(),
                                                                         .replicas = mesh.shape().dp,
                                                                         .rank = mesh.Coordinate(Axis::kDp),
                                                                         .block = train.global_batch(),
                                                                         .shuffle = train.shuffle(),
                                                                         .seed = train.seed()});
  TWOFOLD_CHECK(sampler.ok(), sampler.status().message());  // the spec was validated
  return *std::move(sampler);
}

// With context parallelism, this rank's tokens of every sample; else null.
std::unique_ptr<Dataset> ShardOf(const Dataset* data, const DeviceMesh& mesh) {
  if (data == nullptr || mesh.shape().cp == 1) return nullptr;
  return MakeSequenceShard(*data, {.rank = mesh.Coordinate(Axis::kCp), .ranks = mesh.shape().cp});
}

// Null if this rank shares no table with another stage.
std::unique_ptr<ProcessGroup> MakeGroupOfEnds(const spec::Spec& spec, DeviceMesh& mesh) {
  if (!StagesShareTable(spec)) return nullptr;
  std::unique_ptr<ProcessGroup> ends = mesh.NewGroups(EndsOf(mesh.shape()), "embedding");
  return ends->size() > 1 ? std::move(ends) : nullptr;
}

// Null if the model has no synchronized statistics.
std::unique_ptr<ReplicaStatistics> MakeStatistics(const spec::Spec& spec, Device& device, DeviceMesh& mesh) {
  if (!spec.model().has_cnn() || !spec.model().cnn().sync_batch_norm()) return nullptr;
  return std::make_unique<ReplicaStatistics>(device, mesh.NewGroup(MeshGroup::kReplicas, "batch norm"));
}

// One rank's share of every training step.
class Trainer {
 public:
  Trainer(RankContext& ctx, const spec::Spec& spec, const Samples& samples);
  int64_t parameters() const { return layout_->model().ParameterCount(); }
  const LossScaler& scaler() const { return scaler_; }
  // Returns the loss, the mean over the global batch. Null if `reads_loss` is false: then the host does not wait.
  std::optional<double> Step(int64_t step, bool reads_loss);
  ValidationResult Validate();  // only if the spec asks for validation
  void Resume(const checkpoint::Opened& opened);
  checkpoint::Saver* saver() { return saver_ ? &*saver_ : nullptr; }  // null if the spec asks for no checkpoints
  std::map<std::string, double> Scalars();                            // the state to save that is not in tensors

 private:
  Work BeginLossSum();
  Work SpreadLoss(Work sum);
  Predictions Predict(nn::Context& ctx, const Dataset& data, std::span<const int64_t> indices);
  std::optional<Tensor> GradientFactor();
  Tensor SquaredNorm();

  RankContext& rank_;
  const spec::Spec& spec_;
  Device& device_;
  DeviceMesh mesh_;
  ProcessGroup &replicas_, &stages_;
  const std::unique_ptr<Dataset> shard_, validation_shard_;  // null if the samples are used whole
  const std::unique_ptr<ReplicaStatistics> statistics_;
  nn::Context nn_;
  const DType dtype_;
  ParallelLayers layers_;
  const std::unique_ptr<nn::Loss> loss_function_;
  const std::vector<nn::ModelPart> parts_;    // this stage's
  const std::unique_ptr<ProcessGroup> ends_;  // first and last stage if they share a table; else null
  const ReplicaGroups groups_;                // the ranks that hold what this one holds
  std::unique_ptr<ParameterLayout> layout_;
  GradientNorm norm_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  const optim::LrSchedule schedule_;
  DistributedSampler sampler_;
  const pipeline::PipelineShape pipeline_;
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

ValidationOptions ToOptions(const spec::Spec& spec, DType dtype) {
  const spec::Validation& v = spec.train().validation();
  return {.samples = v.samples(),
          .batch = v.batch(),
          .classes = InputOf(spec.model()).classes,
          .patience = v.patience(),
          .min_delta = v.min_delta(),
          .dtype = dtype};
}

checkpoint::SaveOptions ToSaveOptions(const spec::Checkpoint& c) {
  TWOFOLD_CHECK(c.has_path(), "checkpoints have a place");
  return {.folder = c.path(),
          .full = c.kind() == spec::Checkpoint::FULL,
          .asynchronous = c.asynchronous(),
          .keep_last = c.keep_last()};
}

Trainer::Trainer(RankContext& ctx, const spec::Spec& spec, const Samples& samples)
    : rank_(ctx),
      spec_(spec),
      device_(ctx.device()),
      mesh_(ctx.world(), MeshOf(spec.parallel())),
      replicas_(mesh_.Group(MeshGroup::kReplicas)),
      stages_(mesh_.Group(MeshGroup::kPp)),
      shard_(ShardOf(&samples.training, mesh_)),
      validation_shard_(ShardOf(samples.validation, mesh_)),
      statistics_(MakeStatistics(spec, device_, mesh_)),
      nn_{.device = device_, .stream = device_.compute(), .seed = spec.train().seed(), .statistics = statistics_.get()},
      dtype_(ToDType(spec.train().precision().parameter())),
      layers_(mesh_, ParallelOptionsOf(spec)),
      loss_function_(MakeLoss(spec.model(), layers_)),
      parts_(PartsOfStage(spec, mesh_.Coordinate(Axis::kPp))),
      ends_(MakeGroupOfEnds(spec, mesh_)),
      groups_(replicas_, {{kTensorTag, &layers_.tensor_sums()},
                          {kKeyValueTag, layers_.key_value_sums()},
                          {kEmbeddingTag, ends_.get()},
                          {kExpertsTag, &mesh_.Group(MeshGroup::kExpertReplicas)}}),
      layout_(MakeLayout(
          nn_,
          WithRecompute(MakeStage(spec.model(), {dtype_, ToDType(spec.train().precision().buffer())}, parts_, layers_),
                        spec, parts_),
          groups_, spec)),
      norm_(nn_, *layout_, mesh_.Group(MeshGroup::kModel), &mesh_.Group(MeshGroup::kEp)),
      optimizer_(MakeOptimizer(spec.train(), spec.parallel().offload())),
      schedule_(MakeSchedule(spec.train().schedule())),
      sampler_(MakeSampler(spec.train(), samples.training, mesh_)),
      pipeline_(PipelineShapeOf(spec)),
      actions_(pipeline::ActionsOf(ScheduleOf(spec.parallel()), pipeline_, mesh_.Coordinate(Axis::kPp))),
      forwards_(ForwardsOf(pipeline_.chunks)),
      executor_(ctx, mesh_,
                {.chunks = pipeline_.chunks,
                 .overlap = spec.parallel().overlap(),
                 .scatter_gather = spec.parallel().scatter_gather_messages()}),
      scaler_(spec.train().precision()) {
  if (spec.parallel().offload() != spec::Parallel::NO_OFFLOAD) {
    ctx.AddNote("exposed communication includes waits for transfers to and from the host's memory");
  }
  const std::vector<optim::Slice> slices = layout_->Slices();
  optimizer_->Attach(nn_, slices);
  micro_batches_.emplace(nn_, *layout_, parts_, *loss_function_, shard_ ? *shard_ : samples.training, spec,
                         MicroBatches::Options{.samples = spec.train().micro_batch(),
                                               .accumulation = pipeline_.micro_batches,
                                               .replicas = replicas_.size(),
                                               .dp = mesh_.shape().dp,
                                               .dp_rank = mesh_.Coordinate(Axis::kDp)});
  if (!scaler_.dynamic() && scaler_.scale() != 1) {
    unscaling_ = device_.NewTensor(Shape{1}, DType::kF32, Category::kOther);
    nn_.Launch(ops::Fill{.out = unscaling_, .value = 1 / scaler_.scale()});
  }
  if (spec.train().has_validation()) {
    TWOFOLD_CHECK(samples.validation != nullptr, "there are samples to validate on");
    validation_.emplace(
        nn_, mesh_, validation_shard_ ? *validation_shard_ : *samples.validation, *loss_function_,
        [this](nn::Context& c, const Dataset& data, std::span<const int64_t> indices) {
          return Predict(c, data, indices);
        },
        ToOptions(spec, dtype_));
  }
  if (spec.train().has_checkpoint()) {
    saver_.emplace(ctx, mesh_, *layout_, *optimizer_, ToSaveOptions(spec.train().checkpoint()),
                   checkpoint::MetadataOf(spec));
  }
}

void Trainer::Resume(const checkpoint::Opened& opened) {
  checkpoint::Load(rank_, opened, *layout_, *optimizer_);
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
  executor_.Execute(forwards_, 1, BoundariesOf(spec_, parts_, static_cast<int64_t>(indices.size())), dtype_,
                    [&](const pipeline::Action& action, Tensor in) {
                      return micro_batches_->Predict(ctx, action.chunk, data, indices, std::move(in), predictions);
                    });
  return predictions;
}

// The factor by which the update multiplies gradients; an empty tensor means 1. Returns nullopt if the gradients are
// not finite and the update must be skipped.
std::optional<Tensor> Trainer::GradientFactor() {
  const double clip_norm = spec_.train().clip_norm(), scale = scaler_.scale();
  if (clip_norm == 0 && !scaler_.dynamic()) return unscaling_;
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

// The mean over the global batch is a sum over the replicas of the last stage.
Work Trainer::BeginLossSum() {
  if (stages_.rank() + 1 < stages_.size()) return Work();
  return replicas_.AllReduce(micro_batches_->loss(), ReduceOp::kSum);
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
      actions_, pipeline_.micro_batches, BoundariesOf(spec_, parts_, spec_.train().micro_batch()), dtype_,
      [this](const pipeline::Action& action, Tensor in) { return micro_batches_->Run(action, std::move(in)); });
  Work loss = BeginLossSum();  // overlaps with the optimizer
  layout_->FinishGradients();
  loss = SpreadLoss(std::move(loss));
  if (const std::optional<Tensor> factor = GradientFactor()) {
    optimizer_->Step(nn_, optimizer_->learning_rate() * optim::Factor(schedule_, step), *factor);
  } else {
    layout_->SkipUpdate();
  }
  layout_->PublishUpdate();
  loss.WaitOn(device_.compute());
  if (!reads_loss) return std::nullopt;
  return device_.Item(micro_batches_->loss(),
                      StandIn{std::log(static_cast<double>(InputOf(spec_.model()).classes)), "loss"});
}

// Every `every_steps` steps, and after the last step.
bool IsValidated(const spec::Train& train, int64_t step) {
  if (!train.has_validation()) return false;
  return (step + 1) % train.validation().every_steps() == 0 || step + 1 == train.steps();
}

bool IsSaved(const spec::Train& train, int64_t step, bool last) {
  if (!train.has_checkpoint()) return false;
  return last || step + 1 == train.steps() ||
         (train.checkpoint().has_every_steps() && (step + 1) % train.checkpoint().every_steps() == 0);
}

// Validations and checkpoints wait for the device anyway.
bool ReadsLoss(const spec::Train& train, int64_t step) {
  return (step + 1) % train.report_loss_every() == 0 || step + 1 == train.steps() || IsValidated(train, step) ||
         IsSaved(train, step, /*last=*/false);
}

// The checkpoint that the run resumes from. Nullopt if it starts at step 0.
std::optional<checkpoint::Opened> OpenResumed(RankContext& ctx, const spec::Spec& spec,
                                              const checkpoint::Opened* read) {
  if (!spec.train().has_resume()) return std::nullopt;
  checkpoint::Opened opened = checkpoint::Agree(ctx, spec, read);
  if (ctx.rank() != 0) return opened;
  ctx.AddNote(StrCat("resumed from ", opened.path, ", after step ", opened.manifest.metadata.step));
  for (const std::string& bad : opened.passed_over) ctx.AddNote(StrCat("skipped an unusable checkpoint: ", bad));
  for (std::string& note : checkpoint::Differences(opened.manifest, spec)) ctx.AddNote(std::move(note));
  return opened;
}

}  // namespace

std::string TrainRank(RankContext& ctx, const spec::Spec& spec, const Samples& samples,
                      const std::function<void(const StepProgress&)>& progress,
                      const std::function<int64_t(int64_t step)>& next, const checkpoint::Opened* read) {
  TWOFOLD_CHECK(!spec.train().has_epochs(), "epochs have been made steps");
  const std::optional<checkpoint::Opened> resumed = OpenResumed(ctx, spec, read);
  const int64_t first_step = resumed ? resumed->manifest.metadata.step : 0;
  Recorder recorder(ctx, spec, first_step);
  // If this rank fails, the record of what it did until then is kept.
  ctx.SetPartialResultSource([&] { return recorder.PartialRecord(); },
                             [&] { return recorder.RecordWithoutTimeLine(); });
  absl::Cleanup keep = [&] {
    ctx.SetPartialResultSource(nullptr);
    ctx.SetPartialResult(recorder.PartialRecord());
  };

  Trainer trainer(ctx, spec, samples);
  if (resumed) trainer.Resume(*resumed);
  const int64_t skipped_before = trainer.scaler().state().skipped;
  recorder.SetParameters(trainer.parameters());
  ctx.world().Barrier().Wait();
  const int64_t steps = spec.train().steps();
  StepProgress done{.step = first_step, .steps = steps, .first_step = first_step};
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
  for (int64_t step = first_step; step < steps; ++step) {
    ctx.CheckInterrupt();
    if (next) step = next(step);
    recorder.BeginStep(step);
    const std::optional<double> loss = trainer.Step(step, ReadsLoss(spec.train(), step));
    recorder.EndStep(loss);
    recorder.SetSkipped(trainer.scaler().state().skipped - skipped_before, trainer.scaler().scale());
    done.step = step + 1, done.seconds = recorder.last_step().value();
    if (loss) done.loss = *loss, done.loss_step = done.step;
    tell();
    bool stop = false;
    if (IsValidated(spec.train(), step)) {
      recorder.BeginValidation();
      const ValidationResult result = trainer.Validate();
      done.validation = &recorder.EndValidation(step + 1, result);
      tell();
      done.validation = nullptr;
      stop = result.stop;
    }
    if (IsSaved(spec.train(), step, stop)) {
      recorder.Pause();
      trainer.saver()->Save(step + 1, trainer.Scalars());
      recorder.Resume();
    }
    if (trainer.saver() != nullptr) note_saved();
    if (stop) break;
  }
  if (trainer.saver() != nullptr) {
    recorder.Pause();
    trainer.saver()->Finish();
    note_saved();
  }
  std::move(keep).Cancel();
  ctx.SetPartialResultSource(nullptr);
  return recorder.Record();
}

}  // namespace twofold
