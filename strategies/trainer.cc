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
#include "core/data/load_batch.h"
#include "core/optim/clip.h"
#include "strategies/checkpoint/load.h"
#include "strategies/checkpoint/save.h"
#include "strategies/data_parallel/replica_statistics.h"
#include "strategies/layout_factory.h"
#include "strategies/loss_scaler.h"
#include "strategies/mesh_of.h"
#include "strategies/model_factory.h"
#include "strategies/model_parallel/gradient_norm.h"
#include "strategies/model_parallel/gradient_sums.h"
#include "strategies/model_parallel/layers.h"
#include "strategies/recompute.h"
#include "strategies/recorder.h"
#include "strategies/validation.h"

namespace twofold {
namespace {

DistributedSampler MakeSampler(const spec::Train& train, const Dataset& data, const ProcessGroup& replicas) {
  absl::StatusOr<DistributedSampler> sampler = DistributedSampler::Make({.dataset_size = data.size(),
                                                                         .replicas = replicas.size(),
                                                                         .rank = replicas.rank(),
                                                                         .block = train.global_batch(),
                                                                         .shuffle = train.shuffle(),
                                                                         .seed = train.seed()});
  TWOFOLD_CHECK(sampler.ok(), sampler.status().message());  // the spec was validated
  return *std::move(sampler);
}

// One rank's share of every training step.
class Trainer {
 public:
  Trainer(RankContext& ctx, const spec::Spec& spec, const Samples& samples);
  int64_t parameters() const { return layout_->model().ParameterCount(); }
  const LossScaler& scaler() const { return scaler_; }
  double Step(int64_t step);  // returns the loss, the mean over the global batch
  ValidationResult Validate();  // the spec asks for validation
  void Resume(const checkpoint::Opened& opened);
  checkpoint::Saver* saver() { return saver_ ? &*saver_ : nullptr; }  // null: the spec asks for no checkpoints
  std::map<std::string, double> Scalars();  // what has a state beside the tensors

 private:
  void MicroBatch(std::span<const int64_t> indices, bool first);
  Tensor Evaluate(nn::Context& ctx, Tensor inputs);
  Tensor ToModelInput(Tensor inputs);
  std::optional<Tensor> GradientFactor();
  Tensor SquaredNorm();

  RankContext& rank_;
  const spec::Spec& spec_;
  const Dataset& data_;
  Device& device_;
  DeviceMesh mesh_;
  ParallelLayers layers_;
  ProcessGroup& replicas_;
  ReplicaStatistics statistics_;
  nn::Context nn_;
  const DType dtype_;
  std::unique_ptr<nn::Loss> loss_of_;
  std::unique_ptr<ParameterLayout> layout_;
  GradientSums sums_;
  GradientNorm norm_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  const optim::LrSchedule schedule_;
  DistributedSampler sampler_;
  const int64_t micro_batch_, accumulation_;
  LossScaler scaler_;
  Tensor loss_;  // this rank's part of the mean over the global batch
  Tensor unscaling_;  // what a fixed scale of the loss leaves to undo; empty: nothing
  nn::Saved saved_, loss_saved_;
  std::optional<Validation> validation_;
  std::optional<checkpoint::Saver> saver_;
};

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
  return {.folder = c.path(), .full = c.kind() == spec::Checkpoint::FULL, .asynchronous = c.asynchronous(), .keep_last = c.keep_last()};
}

Trainer::Trainer(RankContext& ctx, const spec::Spec& spec, const Samples& samples)
    : rank_(ctx),
      spec_(spec),
      data_(samples.training),
      device_(ctx.device()),
      mesh_(ctx.world(), MeshOf(spec.parallel())),
      layers_(mesh_, ParallelOptionsOf(spec)),
      replicas_(mesh_.Group(Along::kReplicas)),
      statistics_(device_, replicas_),
      nn_{.device = device_,
          .stream = device_.compute(),
          .seed = spec.train().seed(),
          .statistics = &statistics_},
      dtype_(ToDType(spec.train().precision().parameter())),
      loss_of_(layers_.MakeLoss(InputOf(spec.model()).classes)),
      layout_(MakeLayout(
          nn_, WithRecompute(MakeModel(spec.model(), {dtype_, ToDType(spec.train().precision().buffer())}, layers_), spec),
          {replicas_, mesh_.Group(Along::kExpertReplicas)}, spec)),
      sums_(nn_, *layout_, {.tensor = &mesh_.Group(Along::kTp), .key_value = layers_.key_value_group()}),
      norm_(nn_, *layout_, mesh_.Group(Along::kModel), &mesh_.Group(Along::kEp)),
      optimizer_(MakeOptimizer(spec.train().optimizer(), spec.parallel().offload())),
      schedule_(MakeSchedule(spec.train().schedule())),
      sampler_(MakeSampler(spec.train(), samples.training, replicas_)),
      micro_batch_(spec.train().micro_batch()),
      accumulation_(sampler_.samples_per_batch() / micro_batch_),
      scaler_(spec.train().precision()) {
  if (spec.parallel().offload() != spec::Parallel::NO_OFFLOAD) {
    ctx.AddNote("exposed communication counts waits for transfers to and from the host's memory, too");
  }
  const std::vector<optim::Slice> slices = layout_->Slices();
  optimizer_->Attach(nn_, slices);
  loss_ = device_.NewTensor(Shape{1}, ops::AccumulationType(dtype_), Category::kOther);
  if (!scaler_.dynamic() && scaler_.scale() != 1) {
    unscaling_ = device_.NewTensor(Shape{1}, DType::kF32, Category::kOther);
    nn_.Launch(ops::Fill{.out = unscaling_, .value = 1 / scaler_.scale()});
  }
  if (spec.train().has_validation()) {
    TWOFOLD_CHECK(samples.validation != nullptr, "there are samples to validate on");
    validation_.emplace(
        nn_, replicas_, *samples.validation, [this](nn::Context& c, Tensor inputs) { return Evaluate(c, std::move(inputs)); },
        *loss_of_, ToOptions(spec, dtype_));
  }
  if (spec.train().has_checkpoint()) {
    saver_.emplace(ctx, mesh_, *layout_, *optimizer_, ToSaveOptions(spec.train().checkpoint()), checkpoint::FactsOf(spec));
  }
}

void Trainer::Resume(const checkpoint::Opened& opened) {
  checkpoint::Load(rank_, opened, *layout_, *optimizer_);
  const std::map<std::string, double>& scalars = opened.manifest.facts.scalars;
  if (scalars.contains("loss_scale.scale")) {
    scaler_.set_state(LossScaler::State::Load(
        {scalars.at("loss_scale.scale"), scalars.at("loss_scale.good_steps"), scalars.at("loss_scale.skipped")}));
  }
  const auto best = scalars.find("validation.best"), in_vain = scalars.find("validation.in_vain");
  if (!validation_ || in_vain == scalars.end()) return;
  validation_->patience().Restore({.any = best != scalars.end(),
                                   .best = best != scalars.end() ? best->second : 0,
                                   .in_vain = static_cast<int64_t>(in_vain->second)});
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
    scalars["validation.in_vain"] = static_cast<double>(state.in_vain);
  }
  return scalars;
}

// All ranks evaluate with the same running statistics, whatever micro-batches each has seen.
ValidationResult Trainer::Validate() {
  layout_->AverageBuffers();
  return validation_->Run([this] { rank_.CheckInterrupt(); });
}

// Forward alone.
Tensor Trainer::Evaluate(nn::Context& ctx, Tensor inputs) {
  Tensor logits = layout_->model().Forward(ctx, ToModelInput(std::move(inputs)), saved_);
  saved_.Clear();
  return logits;
}

// Forward and backward over a part of this rank's samples. Adds to the gradients and to loss_.
void Trainer::MicroBatch(std::span<const int64_t> indices, bool first) {
  Batch batch = LoadBatch(device_, data_, indices);
  Tensor logits = layout_->model().Forward(nn_, ToModelInput(std::exchange(batch.inputs, Tensor())), saved_);
  {
    const Tensor mean =
        loss_of_->Forward(nn_, std::exchange(logits, Tensor()), batch.targets, loss_saved_);
    nn_.Launch(ops::Sum{.in = mean,
                        .out = loss_,
                        .factor = 1.0 / static_cast<double>(accumulation_ * replicas_.size()),
                        .accumulate = !first});
  }
  batch = {};  // what backward needs of it is saved
  layout_->model().Backward(
      nn_, loss_of_->Backward(nn_, loss_saved_, scaler_.scale() / static_cast<double>(accumulation_)),
      saved_);
}

// Ids go in as they are, features in the model's float type; pixels 0 to 255 become -1 to 1.
Tensor Trainer::ToModelInput(Tensor inputs) {
  if (InputOf(spec_.model()).kind == ModelInput::kTokens || inputs.dtype() == dtype_) return inputs;
  Tensor cast = nn_.Activation(inputs.shape(), dtype_);
  if (IsFloat(inputs.dtype())) {
    nn_.Launch(ops::Cast{.in = inputs, .out = cast});
  } else {
    nn_.Launch(ops::Affine{.in = inputs, .out = cast, .scale = 1 / 127.5, .shift = -1});
  }
  return cast;
}

// What the update multiplies gradients by (an empty tensor: 1); none: gradients are not finite, and nothing is to be updated.
std::optional<Tensor> Trainer::GradientFactor() {
  const double clip_norm = spec_.train().clip_norm(), scale = scaler_.scale();
  if (clip_norm == 0 && !scaler_.dynamic()) return unscaling_;
  const Tensor squares = SquaredNorm();
  if (scaler_.dynamic() && !scaler_.Update(std::isfinite(device_.Item(squares, StandIn{0, "found-inf"})))) return std::nullopt;
  return optim::ClipFactor(nn_, squares, clip_norm > 0 ? clip_norm : std::numeric_limits<double>::infinity(), 1 / scale);
}

// Of the model's gradients. Ranks that hold the same ones need tell each other nothing; but where a step depends on it, not even
// rounding may let one of them skip what another does.
Tensor Trainer::SquaredNorm() {
  Tensor squares = norm_.Squared();
  const ProcessGroup* holders = layout_->holders();
  const int agreeing = holders != nullptr ? holders->size() : 1;
  if (scaler_.dynamic() && agreeing < replicas_.size()) replicas_.AllReduce(squares, ReduceOp::kAvg).WaitOn(device_.compute());
  return squares;
}

double Trainer::Step(int64_t step) {
  const std::vector<int64_t> indices = sampler_.BatchAt(step);
  nn_.step = step;
  layout_->BeginStep();
  for (int64_t a = 0; a < accumulation_; ++a) {
    layout_->BeginMicroBatch(a + 1 == accumulation_);
    nn_.micro_batch = a * replicas_.size() + replicas_.rank();
    MicroBatch(
        std::span(indices).subspan(static_cast<size_t>(a * micro_batch_), static_cast<size_t>(micro_batch_)),
        a == 0);
  }
  Work loss_sum = replicas_.AllReduce(loss_, ReduceOp::kSum);  // travels while the optimizer works
  layout_->FinishGradients();
  sums_.Run();
  if (const std::optional<Tensor> factor = GradientFactor()) {
    optimizer_->Step(nn_, optimizer_->learning_rate() * optim::Factor(schedule_, step), *factor);
  }
  layout_->PublishUpdate();
  loss_sum.WaitOn(device_.compute());
  return device_.Item(loss_, StandIn{std::log(static_cast<double>(InputOf(spec_.model()).classes)), "loss"});
}

// After every so many steps, and after the last one.
bool IsValidated(const spec::Train& train, int64_t step) {
  if (!train.has_validation()) return false;
  return (step + 1) % train.validation().every_steps() == 0 || step + 1 == train.steps();
}

bool IsSaved(const spec::Train& train, int64_t step, bool last) {
  if (!train.has_checkpoint()) return false;
  return last || step + 1 == train.steps() || (train.checkpoint().has_every_steps() && (step + 1) % train.checkpoint().every_steps() == 0);
}

// The checkpoint that a run goes on from; steps count from the first of all. None: step 0.
std::optional<checkpoint::Opened> OpenResumed(RankContext& ctx, const spec::Spec& spec) {
  if (!spec.train().has_resume()) return std::nullopt;
  absl::StatusOr<checkpoint::Opened> opened = checkpoint::Open(spec.train().resume());
  const absl::Status status = opened.ok() ? checkpoint::CheckFits(opened->path, opened->manifest, spec) : opened.status();
  if (!status.ok()) {
    throw RankFailure(RankFailure::Kind::kOther, ctx.rank(), StrCat("rank ", ctx.rank(), ": train.resume: ", std::string(status.message())));
  }
  ctx.AddNote(StrCat("went on from ", opened->path, ", after step ", opened->manifest.facts.step));
  for (std::string& bad : opened->passed_over) ctx.AddNote(StrCat("passed over: ", bad));
  for (std::string& note : checkpoint::Differences(opened->manifest, spec)) ctx.AddNote(std::move(note));
  return *std::move(opened);
}

}  // namespace

std::string TrainRank(RankContext& ctx, const spec::Spec& spec, const Samples& samples,
                      const std::function<void(const StepProgress&)>& progress,
                      const std::function<int64_t(int64_t step)>& next) {
  TWOFOLD_CHECK(!spec.train().has_epochs(), "epochs have been made steps");
  const std::optional<checkpoint::Opened> resumed = OpenResumed(ctx, spec);
  const int64_t first_step = resumed ? resumed->manifest.facts.step : 0;
  Recorder recorder(ctx, spec, first_step);
  // Whatever ends this rank, what it did until then is kept.
  ctx.SetPartialResultSource([&] { return recorder.Record(); });
  absl::Cleanup keep = [&] {
    ctx.SetPartialResultSource(nullptr);
    ctx.SetPartialResult(recorder.Record());
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
    const double loss = trainer.Step(step);
    recorder.EndStep(loss);
    recorder.SetSkipped(trainer.scaler().state().skipped - skipped_before, trainer.scaler().scale());
    done.step = step + 1, done.seconds = recorder.last_step().value(), done.loss = loss;
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
