#include "strategies/rank_trainer.h"

#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "core/base/strings.h"
#include "core/optim/clip.h"
#include "strategies/checkpoint/agree.h"

namespace twofold {
namespace {

DistributedSampler MakeSampler(const TrainingOptions& options, const Dataset& data, const DeviceMesh& mesh) {
  absl::StatusOr<DistributedSampler> sampler = DistributedSampler::Make({.dataset_size = data.size(),
                                                                         .replicas = mesh.shape().dp,
                                                                         .rank = mesh.Coordinate(Axis::kDp),
                                                                         .block = options.global_batch,
                                                                         .shuffle = options.shuffle,
                                                                         .seed = options.seed,
                                                                         .set_epoch = options.set_epoch});
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

// One micro-batch through all chunks of a stage.
std::vector<pipeline::Action> ForwardsOf(int chunks) {
  std::vector<pipeline::Action> actions;
  for (int c = 0; c < chunks; ++c) actions.push_back({pipeline::Action::kForward, 0, c});
  return actions;
}

}  // namespace

RankTrainer::RankTrainer(RankContext& ctx, const TrainingOptions& options, const Samples& samples,
                         nn::CodecObserver& codecs, nn::RoutingObserver& routing, bool draws)
    : setup_(std::in_place, ctx.device().allocator().owners(), OwnerScope::Names{.pass = "setup"}),
      rank_(ctx),
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
          .draws = draws,
          .seed = options.seed,
          .statistics = statistics_.get(),
          .codecs = &codecs,
          .routing = &routing},
      layers_(mesh_, options.layers),
      loss_function_(MakeLoss(*options.model, options.types, layers_)),
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
  if (options.elastic && options.elastic->shard_copies && layout_->shard_group() != nullptr)
    copy_.emplace(nn_, *layout_, *layout_->shard_group(), *optimizer_, options.make_optimizer());
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
    const bool briefly = norm_.DiffersBriefly(mesh_.shape().dp * mesh_.shape().cp);
    norm_.TellShardsApart(layers_.TellOwnersApart(briefly), briefly);
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
  setup_.reset();
}

int64_t RankTrainer::parameters() const {
  int64_t count = 0;
  for (const nn::Parameter* p : layout_->Parameters()) count += p->numel();
  return count;
}

Bytes RankTrainer::Resume(const checkpoint::Opened& opened) {
  const absl::StatusOr<Bytes> bytes = TryResume(opened);
  if (bytes.ok()) return *bytes;
  // Others wait until one that knows why has ended: its reason is the run's.
  if (absl::IsCancelled(bytes.status())) rank_.world().Barrier().Wait();
  throw checkpoint::CannotResume(rank_, std::string(bytes.status().message()));
}

absl::StatusOr<Bytes> RankTrainer::TryResume(const checkpoint::Opened& opened) {
  const absl::StatusOr<Bytes> bytes =
      checkpoint::Load(rank_, opened, *layout_, *optimizer_, local_update_ ? &*local_update_ : nullptr);
  if (!bytes.ok()) return bytes;
  SetScalars(opened.manifest.metadata.scalars);
  if (copy_) copy_->Refresh(optimizer_->updates());
  return bytes;
}

Bytes RankTrainer::ResumeWithoutFile(int64_t updates) {
  const Bytes bytes = checkpoint::LoadNothing(rank_, *layout_, *optimizer_);
  Restored(updates);
  return bytes;
}

void RankTrainer::SetScalars(const std::map<std::string, double>& scalars) {
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

std::map<std::string, double> RankTrainer::Scalars() {
  std::map<std::string, double> scalars;
  if (scaler_.dynamic()) {
    const std::array<double, 3> state = (in_step_ ? scaler_before_ : scaler_.state()).Save();
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
ValidationResult RankTrainer::Validate() {
  const OwnerScope pass(nn_.owners(), {.pass = "validation"});
  layout_->AverageBuffers();
  return validation_->Run([this] { rank_.CheckInterrupt(); });
}

// Runs forward only, through all stages.
Predictions RankTrainer::Predict(nn::Context& ctx, const Dataset& data, std::span<const int64_t> indices) {
  Predictions predictions;
  executor_.Execute(forwards_, 1, Boundaries(static_cast<int64_t>(indices.size())), options_.types.parameter,
                    [&](const pipeline::Action& action, Tensor in) {
                      return micro_batches_->Predict(ctx, action.chunk, data, indices, std::move(in), predictions);
                    });
  return predictions;
}

// The factor by which the update multiplies gradients; an empty tensor means 1. Returns nullopt if the gradients are
// not finite and the update must be skipped.
std::optional<Tensor> RankTrainer::GradientFactor() {
  const double clip_norm = options_.clip_norm, scale = scaler_.scale();
  if (!NeedsNorm()) return unscaling_;
  const OwnerScope pass(nn_.owners(), {.pass = "optimizer"});
  const Tensor squares = SquaredNorm();
  if (scaler_.dynamic() && !scaler_.Update(std::isfinite(device_.Item(squares, StandIn{0, "found-inf"}))))
    return std::nullopt;
  return optim::ClipFactor(nn_, squares, clip_norm > 0 ? clip_norm : std::numeric_limits<double>::infinity(),
                           1 / scale);
}

// The squared norm of the model's gradients. Ranks with the same gradients need not communicate it. But if it decides
// whether the step is skipped, it must be equal on all of them to the last bit, so it is averaged over the replicas.
Tensor RankTrainer::SquaredNorm() {
  Tensor squares = norm_.Squared();
  const ProcessGroup* holders = layout_->shard_group();
  const int agreeing = holders != nullptr ? holders->size() : 1;
  if (scaler_.dynamic() && agreeing < replicas_.size())
    replicas_.AllReduce(squares, ReduceOp::kAvg).WaitOn(device_.compute());
  return squares;
}

// The mean over the global batch is a sum over the replicas of the last stage, on all islands. Islands exchange it only
// in steps in which the host reads it.
Work RankTrainer::BeginLossSum(bool reads_loss) {
  if (stages_.rank() + 1 < stages_.size()) return Work();
  ProcessGroup& group = reads_loss ? batch_ : replicas_;
  return group.AllReduce(micro_batches_->loss(), ReduceOp::kSum);
}

// The last stage broadcasts it to the others.
Work RankTrainer::SpreadLoss(Work sum) {
  if (stages_.size() == 1) return sum;
  sum.WaitOn(device_.compute());
  return stages_.Broadcast(micro_batches_->loss(), stages_.size() - 1);
}

void RankTrainer::RunMicroBatches(int64_t step, std::span<const int64_t> samples) {
  pipeline::PipelineShape shape = options_.pipeline;
  const bool fewer = step < static_cast<int64_t>(options_.micro_batches.size());
  if (fewer) shape.micro_batches = options_.micro_batches[static_cast<size_t>(step)];
  micro_batches_->BeginStep(samples, scaler_.scale(), shape.micro_batches);
  executor_.Execute(fewer ? pipeline::ActionsOf(options_.schedule, shape, stages_.rank()) : actions_,
                    shape.micro_batches, Boundaries(options_.micro_batch), options_.types.parameter,
                    [this](const pipeline::Action& action, Tensor in) {
                      if (launched_) launched_(true);
                      Tensor out = micro_batches_->Run(action, std::move(in));
                      if (launched_) launched_(false);
                      return out;
                    });
}

std::optional<double> RankTrainer::Step(int64_t step, bool reads_loss) {
  const OwnerScope outside(nn_.owners(), {.pass = "step"});  // of its passes
  const std::vector<int64_t> indices =
      samples_before_ ? sampler_.BatchAfter(samples_before_(step)) : sampler_.BatchAt(step);
  nn_.step = step;
  if (options_.elastic) KeepState();
  layout_->BeginStep(scaler_.scale());
  RunMicroBatches(step, indices);
  Work loss = BeginLossSum(reads_loss);  // overlaps with the optimizer
  layout_->FinishGradients();
  loss = SpreadLoss(std::move(loss));
  if (copy_) copy_->SendGradients();
  prepared_ = {.step = step,
               .lr = optimizer_->learning_rate() * optim::Factor(options_.learning_rate, step),
               .factor = GradientFactor()};
  if (commit_) {  // once it is committed, the step counts, so its loss must be known
    loss.WaitOn(device_.compute());
    last_loss_ = ReadLoss(reads_loss);
    commit_();
  }
  ApplyUpdate();
  if (local_update_) local_update_->AfterUpdate(step + 1);
  layout_->PublishUpdate();
  if (commit_) return last_loss_;
  loss.WaitOn(device_.compute());
  return ReadLoss(reads_loss);
}

std::optional<double> RankTrainer::ReadLoss(bool reads_loss) {
  if (!reads_loss) return std::nullopt;
  return device_.Item(micro_batches_->loss(),
                      StandIn{std::log(static_cast<double>(options_.model->input().classes)), "loss"});
}

// ---- Elastic training ----

void RankTrainer::ApplyUpdate() {
  const OwnerScope pass(nn_.owners(), {.pass = "optimizer"});
  if (prepared_->factor) {
    optimizer_->Step(nn_, prepared_->lr, *prepared_->factor);
    if (copy_) copy_->Update(prepared_->lr, *prepared_->factor);
  } else {
    layout_->SkipUpdate();
  }
  steps_done_ = prepared_->step + 1;
  in_step_ = false;
  prepared_.reset();
}

void RankTrainer::KeepState() {
  in_step_ = true;
  scaler_before_ = scaler_.state();
  const std::vector<nn::Parameter*> buffers = layout_->Buffers();
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (b == buffers_before_.size())
      buffers_before_.push_back(device_.NewTensor(buffers[b]->shape(), buffers[b]->dtype(), Category::kOther));
    nn_.Launch(ops::Cast{.in = buffers[b]->data(), .out = buffers_before_[b]});
  }
}

void RankTrainer::FinishUpdate() { ApplyUpdate(); }

void RankTrainer::Abandon() {
  prepared_.reset();
  if (!in_step_) return;
  in_step_ = false;
  scaler_.set_state(scaler_before_);
  if (!layout_->ReducerStates().empty()) layout_->SkipUpdate();
  const std::vector<nn::Parameter*> buffers = layout_->Buffers();
  for (size_t b = 0; b < buffers_before_.size(); ++b) {
    Tensor data = buffers[b]->data();
    nn_.Launch(ops::Cast{.in = buffers_before_[b], .out = data});
  }
}

std::vector<checkpoint::LocalPiece> RankTrainer::Own() {
  std::vector<checkpoint::LocalPiece> own = checkpoint::LocalParameters(*layout_);
  for (checkpoint::LocalPiece& state : checkpoint::LocalStates(*layout_, *optimizer_)) own.push_back(std::move(state));
  for (checkpoint::LocalPiece& buffer : checkpoint::LocalBuffers(*layout_)) own.push_back(std::move(buffer));
  return own;
}

std::vector<checkpoint::LocalPiece> RankTrainer::Held() {
  std::vector<checkpoint::LocalPiece> held = Own();
  const auto add = [&held](std::vector<checkpoint::LocalPiece> more) {
    held.insert(held.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  for (size_t i = 0; copy_ && i < copy_->copies().size(); ++i) {
    const optim::Slice& slice = copy_->copies()[i];
    add(checkpoint::PiecesOf(checkpoint::kModel, slice, slice.data));
    add(checkpoint::PiecesOfStates(slice, copy_->StateOf(i)));
  }
  return held;
}

void RankTrainer::Restored(int64_t updates) {
  optimizer_->set_updates(updates);
  layout_->PublishUpdate();
  if (copy_) copy_->Refresh(updates);
}

}  // namespace twofold
