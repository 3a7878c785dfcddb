#include "strategies/from_spec.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "strategies/compression/coded_reducer.h"
#include "strategies/compression/one_bit.h"
#include "strategies/compression/one_bit_adam.h"
#include "strategies/compression/power_sgd.h"
#include "strategies/compression/quantize.h"
#include "strategies/compression/random_k.h"
#include "strategies/compression/top_k.h"
#include "strategies/expert_parallel/experts.h"
#include "strategies/models/kinds.h"
#include "strategies/pipeline/stages.h"
#include "strategies/zero_plus_plus/quantized_weights.h"
#include "strategies/zero_plus_plus/secondary_shard.h"

namespace twofold {

DType ToDType(spec::DType dtype) {
  switch (dtype) {
    case spec::F32: return DType::kF32;
    case spec::F64: return DType::kF64;
    case spec::BF16: return DType::kBF16;
    case spec::F16: return DType::kF16;
    case spec::I32: return DType::kI32;
    case spec::U8: return DType::kU8;
  }
  return DType::kF32;
}

nn::Fp8Options Fp8Of(const spec::Precision& precision) {
  if (precision.matmul() != spec::Precision::FP8) return {};
  const bool block = precision.fp8().scaling() == spec::Fp8::BLOCK;
  return {.recipe = block ? nn::Fp8Recipe::kBlock : nn::Fp8Recipe::kCurrent,
          .keep_weights = precision.fp8().keep_weights()};
}

std::shared_ptr<const Model> ModelOf(const spec::Model& model) {
  const google::protobuf::Reflection& fields = *model.GetReflection();
  const auto* sizes = fields.GetOneofFieldDescriptor(model, spec::Model::descriptor()->FindOneofByName("kind"));
  const ModelKind* kind = sizes != nullptr ? FindModelKind(sizes->name()) : nullptr;
  if (kind == nullptr) return nullptr;
  return kind->make(fields.GetMessage(model, sizes),
                    {.unfused_attention = model.attention() == spec::Model::UNFUSED,
                     .masks = model.dropout_masks() == spec::Model::STORED ? nn::DropoutMasks::kStored
                                                                           : nn::DropoutMasks::kRecomputed});
}

MeshShape MeshOf(const spec::Parallel& p) {
  MeshShape shape{.pp = static_cast<int>(p.pp()),
                  .dp = static_cast<int>(p.dp()),
                  .cp = static_cast<int>(p.cp()),
                  .tp = static_cast<int>(p.tp()),
                  .ep = static_cast<int>(p.ep()),
                  .islands = static_cast<int>(p.has_islands() ? p.islands() : 1)};
  if (!p.order().empty()) shape.order = *ParseMeshOrder(p.order());
  return shape;
}

pipeline::Schedule ScheduleOf(const spec::Parallel& parallel) {
  switch (parallel.schedule()) {
    case spec::Parallel::GPIPE: return pipeline::Schedule::kGPipe;
    case spec::Parallel::ONE_F_ONE_B: return pipeline::Schedule::kOneFOneB;
    case spec::Parallel::INTERLEAVED_ONE_F_ONE_B: return pipeline::Schedule::kInterleaved;
    case spec::Parallel::ZERO_BUBBLE_H1: return pipeline::Schedule::kZeroBubbleH1;
  }
  return pipeline::Schedule::kOneFOneB;
}

nn::Recomputation RecomputationOf(const spec::Train& train) {
  const spec::ActivationCheckpointing& checkpointing = train.activation_checkpointing();
  return {.every = checkpointing.every(),
          .part = checkpointing.recompute() == spec::ActivationCheckpointing::SELECTIVE
                      ? nn::Recomputation::kAttentionCore
                      : nn::Recomputation::kBlock,
          .early_stop = checkpointing.early_stop()};
}

bool SavesOnSignal(const spec::Train& train) {
  if (!train.has_checkpoint()) return false;
  return train.checkpoint().has_on_signal() ? train.checkpoint().on_signal() : !train.has_elastic();
}

int64_t EveryStepsOf(const spec::LocalUpdate& local) {
  return local.has_local_sgd() ? local.local_sgd().every_steps() : local.diloco().every_steps();
}

RecorderOptions RecorderOptionsOf(const spec::Spec& spec) {
  return {.steps = spec.train().steps(),
          .warmup_steps = spec.train().warmup_steps(),
          .mesh = MeshOf(spec.parallel()),
          .trace = spec.trace().enabled(),
          .traced_ranks = spec.trace().ranks(),
          .traced_steps = spec.trace().last_steps()};
}

// ---- The pipeline ----

std::vector<nn::ModelPart> PartsOf(const spec::Parallel& p, const Model& model) {
  const int parts = static_cast<int>(p.pp() * p.virtual_stages());
  const int64_t blocks = model.shape().layers;
  std::vector<int64_t> sizes(p.stage_layers().begin(), p.stage_layers().end());
  if (parts == 1)
    sizes = {blocks};
  else if (sizes.empty())
    sizes = p.stage_balance() == spec::Parallel::BY_COST ? SplitByCost(model, parts) : SplitUniformly(blocks, parts);
  std::vector<nn::ModelPart> all = PartsOf(sizes);
  TWOFOLD_CHECK_EQ(all.back().last_block, blocks);
  return all;
}

namespace {

using spec::Parallel;

void SetPipeline(const spec::Spec& spec, TrainingOptions& out) {
  const Parallel& p = spec.parallel();
  out.parts = PartsOf(p, *out.model);
  out.schedule = ScheduleOf(p);
  out.pipeline = {
      .stages = static_cast<int>(p.pp()),
      .micro_batches = static_cast<int>(spec.train().global_batch() / (p.dp() * spec.train().micro_batch())),
      .chunks = static_cast<int>(p.virtual_stages())};
  out.executor = {.chunks = out.pipeline.chunks, .overlap = p.overlap(), .scatter_gather = p.scatter_gather_messages()};
}

// ---- The layout over the ranks that share the batch ----

Bytes MiBytes(double mib) { return Bytes(static_cast<int64_t>(mib * 1048576.0)); }

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

LossScalerOptions ToLossScale(const spec::Precision& precision) {
  if (!precision.has_loss_scale()) return {};
  const spec::LossScale& scale = precision.loss_scale();
  const spec::LossScale::Dynamic& rule = scale.dynamic();
  return {.scale = scale.has_fixed() ? scale.fixed() : rule.initial(),
          .dynamic = scale.has_dynamic(),
          .backoff = rule.backoff(),
          .growth = rule.growth(),
          .growth_interval = rule.growth_interval(),
          .minimum = rule.minimum()};
}

bool CorrectsMomentum(const spec::Spec& spec) { return spec.parallel().compression().top_k().momentum_correction(); }

MakeCodec ToQuantize(const spec::Quantize& q) {
  return QuantizeCodecs({.bits = q.bits(), .block = q.block(), .stochastic = q.stochastic()});
}

MakeReducer CompressingReducers(const spec::Spec& spec) {
  const spec::Compression& c = spec.parallel().compression();
  const FeedbackOptions feedback{
      .enabled = c.error_feedback(),
      .may_skip = ToLossScale(spec.train().precision()).dynamic || spec.train().has_elastic()};
  switch (c.codec_case()) {
    case spec::Compression::kTopK: {
      const spec::TopK& t = c.top_k();
      const double momentum = CorrectsMomentum(spec) ? spec.train().optimizer().sgd().momentum() : 0;
      return CodedReducers(TopKCodecs({.density = t.density(),
                                       .warmup_steps = t.warmup_steps(),
                                       .clip_norm = t.clip_norm(),
                                       .momentum = momentum}),
                           feedback);
    }
    case spec::Compression::kRandomK: return RandomKReducers({.density = c.random_k().density(), .feedback = feedback});
    case spec::Compression::kPowerSgd:
      return PowerSgdReducers({.rank = c.power_sgd().rank(),
                               .start_step = c.power_sgd().start_step(),
                               .min_compression = c.power_sgd().min_compression(),
                               .feedback = feedback});
    case spec::Compression::kOneBit: return CodedReducers(OneBitCodecs(), feedback);
    case spec::Compression::kQuantize: return CodedReducers(ToQuantize(c.quantize()), feedback);
    case spec::Compression::CODEC_NOT_SET: break;
  }
  return {};
}

// TrainingOptions::alike_from.
int64_t AlikeFrom(const spec::Spec& spec) {
  const spec::Compression& c = spec.parallel().compression();
  if (c.has_top_k()) return c.top_k().warmup_steps();
  if (c.has_power_sgd()) return c.power_sgd().start_step();
  return spec.train().optimizer().has_one_bit_adam() ? spec.train().optimizer().one_bit_adam().freeze_step() : 0;
}

MakeReducer MomentumReducers(const spec::Spec& spec) {
  const spec::OneBitAdam& adam = spec.train().optimizer().one_bit_adam();
  return OneBitAdamReducers(
      {.beta1 = adam.beta1(), .freeze_step = adam.freeze_step(), .reduce = ToDType(spec.train().precision().reduce())});
}

MakeGather ToGather(const spec::ZeroPlusPlus& zero) {
  MakeGather gather = zero.quantized_weights() ? QuantizedWeights() : PlainGathers();
  return zero.secondary_shard() > 0 ? SecondaryShards(std::move(gather)) : gather;
}

MakeReducer ToReducer(const spec::Spec& spec) {
  if (spec.parallel().has_compression()) return CompressingReducers(spec);
  if (spec.train().optimizer().has_one_bit_adam()) return MomentumReducers(spec);
  if (spec.parallel().zero_plus_plus().quantized_gradients())
    return CodedReducers(QuantizeCodecs({.bits = 4}), {.enabled = false});
  return MeanReducers(ToDType(spec.train().precision().reduce()));
}

LayoutOptions ToLayout(const spec::Spec& spec) {
  const Parallel& p = spec.parallel();
  const DType gradient = ToDType(spec.train().precision().gradient()),
              reduce = ToDType(spec.train().precision().reduce());
  const int near = static_cast<int>(p.zero_plus_plus().secondary_shard());
  if (p.sharding() == Parallel::NO_SHARD) {
    return {DdpOptions{.bucket = MiBytes(p.bucket_mib()),
                       .overlap = p.overlap(),
                       .gradient = gradient,
                       .reduce_every_micro_batch = p.reduce_every_micro_batch()},
            ToReducer(spec)};
  }
  const ShardedOptions sharded{
      .stage = ToStage(p.sharding()),
      .shard_group = p.sharding() == Parallel::HYBRID_SHARD ? static_cast<int>(p.shard_group()) : 0,
      .gather_near = near,
      .reduce_near = p.zero_plus_plus().quantized_gradients() ? near : 0,
      .wrap = PolicyOf(p),
      .gradient = gradient,
      .reduce = reduce,
      .prefetch = p.prefetch(),
      .prefetch_limit = MiBytes(p.prefetch_limit_mib()),
      .reshard_after_forward = p.reshard_after_forward(),
      .pipeline_stage = p.pp() > 1,
      .backward_prefetch = ToPrefetch(p.backward_prefetch()),
      .reduce_every_micro_batch = p.reduce_every_micro_batch(),
      .overlap = p.overlap(),
      .offload = p.offload() == Parallel::OFFLOAD_ALL};
  return {sharded, ToReducer(spec), ToGather(p.zero_plus_plus())};
}

// ---- The update ----

std::optional<LocalUpdateOptions> ToLocalUpdate(const spec::Spec& spec) {
  if (!spec.train().has_local_update()) return std::nullopt;
  const spec::LocalUpdate& local = spec.train().local_update();
  LocalUpdateOptions out{.every_steps = EveryStepsOf(local)};
  if (local.has_diloco()) {
    const spec::DiLoCo& d = local.diloco();
    out.outer = {.lr = d.outer_lr(), .momentum = d.outer_momentum(), .nesterov = d.nesterov()};
  }
  if (local.has_streaming()) {
    out.fragments = static_cast<int>(local.streaming().fragments());
    out.overlap_steps = local.streaming().overlap_steps(), out.weight = local.streaming().weight();
  }
  const DType wide = spec.train().precision().parameter() == spec::F64 ? DType::kF64 : DType::kF32;
  out.make_reducer = MeanReducers(wide);
  if (local.has_quantize()) out.make_reducer = CodedReducers(ToQuantize(local.quantize()), {});
  return out;
}

template <class Adam>
std::unique_ptr<optim::Optimizer> MakeAdam(const Adam& adam, bool decoupled, const optim::Offload& offload,
                                           const optim::LowPrecisionUpdate& low_precision, int64_t freeze_step = 0) {
  return optim::MakeAdam({.lr = adam.lr(),
                          .beta1 = adam.beta1(),
                          .beta2 = adam.beta2(),
                          .eps = adam.eps(),
                          .weight_decay = adam.weight_decay(),
                          .decoupled = decoupled,
                          .freeze_step = freeze_step},
                         offload, low_precision);
}

std::unique_ptr<optim::Optimizer> MakeOptimizer(const spec::Optimizer& optimizer, const optim::Offload& offload,
                                                const optim::LowPrecisionUpdate& low_precision, bool momentum) {
  if (optimizer.has_adam()) return MakeAdam(optimizer.adam(), /*decoupled=*/false, offload, low_precision);
  if (optimizer.has_one_bit_adam()) {
    const spec::OneBitAdam& adam = optimizer.one_bit_adam();
    return MakeAdam(adam, /*decoupled=*/true, offload, low_precision, adam.freeze_step());
  }
  if (!optimizer.has_sgd()) return MakeAdam(optimizer.adamw(), /*decoupled=*/true, offload, low_precision);
  const spec::Sgd& sgd = optimizer.sgd();
  return optim::MakeSgd({.lr = sgd.lr(),
                         .momentum = momentum ? sgd.momentum() : 0,
                         .weight_decay = sgd.weight_decay(),
                         .nesterov = sgd.nesterov()},
                        offload, low_precision);
}

std::string OptimizerName(const spec::Optimizer& optimizer) {
  if (optimizer.has_sgd()) return optimizer.sgd().momentum() > 0 ? "sgd with momentum" : "sgd";
  if (optimizer.has_one_bit_adam()) return "one_bit_adam";
  return optimizer.has_adam() ? "adam" : "adamw";
}

optim::LrSchedule ToLearningRate(const spec::Schedule& schedule) {
  optim::LrSchedule out{.warmup_steps = schedule.warmup_steps()};
  if (schedule.has_cosine()) {
    out.kind = optim::LrSchedule::kCosine;
    out.decay_steps = schedule.cosine().decay_steps();
    out.min_ratio = schedule.cosine().min_lr_ratio();
  } else if (schedule.has_linear()) {
    out.kind = optim::LrSchedule::kLinear;
    out.decay_steps = schedule.linear().decay_steps();
    out.min_ratio = schedule.linear().min_lr_ratio();
  }
  return out;
}

void SetUpdate(const spec::Spec& spec, TrainingOptions& out) {
  const spec::Train& train = spec.train();
  out.offload = spec.parallel().offload() != Parallel::NO_OFFLOAD;
  const auto low_precision = train.precision().stochastic_rounding() ? optim::LowPrecisionUpdate::kStochastic
                                                                     : optim::LowPrecisionUpdate::kMaster;
  out.make_optimizer = [optimizer = train.optimizer(), offload = out.offload, low_precision, seed = train.seed(),
                        momentum = !CorrectsMomentum(spec)] {
    return MakeOptimizer(optimizer, {.state = offload}, {.kind = low_precision, .seed = seed}, momentum);
  };
  out.learning_rate = ToLearningRate(train.schedule());
  out.clip_norm = train.clip_norm();
  out.loss_scale = ToLossScale(train.precision());
  out.local_update = ToLocalUpdate(spec);
  if (train.has_async_sgd()) {
    const spec::AsyncSgd& a = train.async_sgd();
    out.async_sgd = AsyncSgdOptions{.gossip = a.mode() == spec::AsyncSgd::GOSSIP,
                                    .servers = static_cast<int>(a.servers()),
                                    .staleness = a.staleness() < 0 ? std::nullopt : std::optional(a.staleness()),
                                    .staleness_aware = a.staleness_aware(),
                                    .gradient = ToDType(train.precision().gradient())};
  }
  if (train.has_elastic()) {
    const spec::Elastic& e = train.elastic();
    out.elastic = ElasticOptions{.min_dp = e.min_dp(),
                                 .max_dp = e.max_dp(),
                                 .with = {},
                                 .keeps_global_batch = e.batch() == spec::Elastic::KEEP_GLOBAL,
                                 .from_peers = e.on_loss() == spec::Elastic::PEERS,
                                 .shard_copies = e.shard_copies() > 0,
                                 .reform_timeout_s = e.reform_timeout_s()};
  }
}

// ---- Between steps ----

void SetValidation(const spec::Train& train, TrainingOptions& out) {
  if (!train.has_validation()) return;
  const spec::Validation& v = train.validation();
  const ModelInput input = out.model->input();
  out.validation = {.every_steps = v.every_steps(),
                    .options = {.samples = v.samples(),
                                .batch = v.batch(),
                                .classes = input.classes,
                                .accuracy = input.kind != ModelInput::kTokens,
                                .patience = v.patience(),
                                .min_delta = v.min_delta(),
                                .dtype = out.types.parameter}};
}

void SetCheckpoints(const spec::Spec& spec, TrainingOptions& out) {
  const spec::Train& train = spec.train();
  const Parallel& p = spec.parallel();
  const spec::Checkpoint& c = train.checkpoint();
  if (train.has_checkpoint()) {
    out.saving = {.every_steps = c.has_every_steps() ? std::optional(c.every_steps()) : std::nullopt,
                  .on_signal = SavesOnSignal(train),
                  .options = {.folder = c.path(),
                              .full = c.kind() == spec::Checkpoint::FULL,
                              .asynchronous = c.asynchronous(),
                              .keep_last = c.keep_last()}};
  }
  if (train.has_resume()) out.resume = train.resume();
  out.run = {
      .steps = train.steps(),
      .model = out.model,
      .parameter = out.types.parameter,
      .make_optimizer = out.make_optimizer,
      .metadata = {.seed = train.seed(),
                   .world_size = p.pp() * p.dp() * p.cp() * p.tp(),
                   .global_batch = train.global_batch(),
                   .layout = Parallel::Sharding_Name(p.sharding()),
                   .mesh = StrCat("pp ", p.pp(), " dp ", p.dp(), " cp ", p.cp(), " tp ", p.tp(), " ep ", p.ep(),
                                  p.islands() > 1 ? StrCat(" islands ", p.islands()) : std::string()),
                   .kind = spec::Checkpoint::Kind_Name(c.kind()),
                   .optimizer = OptimizerName(train.optimizer()),
                   .model = spec.model().ShortDebugString(),
                   .has_values = spec.device() != spec::EMULATED,
                   .scalars = {}},
      .reads_none = spec.fabric().has_simulated() && spec.fabric().simulated().data() == spec::Simulated::SYMBOLIC};
}

}  // namespace

TrainingOptions TrainingOptionsOf(const spec::Spec& spec) {
  const spec::Train& train = spec.train();
  TWOFOLD_CHECK(!train.has_epochs(), "epochs have been made steps");
  TrainingOptions out;
  out.model = ModelOf(spec.model());
  TWOFOLD_CHECK(out.model != nullptr, "a resolved spec names its model's sizes");
  out.types = {ToDType(train.precision().parameter()), ToDType(train.precision().buffer()),
               ToDType(train.precision().loss())};
  out.recomputation = RecomputationOf(train);
  out.mesh = MeshOf(spec.parallel());
  const ModelShape shape = out.model->shape();
  out.layers = {.sequence_parallel = spec.parallel().sequence_parallel(),
                .overlap = spec.parallel().overlap(),
                .tensor_backward_overlap = spec.parallel().has_tp_backward_overlap()
                                               ? spec.parallel().tp_backward_overlap()
                                               : spec.parallel().overlap(),
                .tensor_overlap = spec.parallel().tp_overlap(),
                .fp8 = Fp8Of(train.precision()),
                .score_limit = static_cast<int64_t>(spec.cuda().attention_workspace_mib() * (1 << 20)),
                .kv_heads = shape.kv_heads > 0 ? shape.kv_heads : shape.heads};
  SetPipeline(spec, out);
  out.layout = ToLayout(spec);
  out.steps = train.steps(), out.report_loss_every = train.report_loss_every();
  out.alike_from = AlikeFrom(spec);
  out.global_batch = train.global_batch(), out.micro_batch = train.micro_batch();
  out.shuffle = train.shuffle(), out.set_epoch = train.set_epoch(), out.seed = train.seed();
  SetUpdate(spec, out);
  SetValidation(train, out);
  SetCheckpoints(spec, out);
  out.recorder = RecorderOptionsOf(spec);
  return out;
}

}  // namespace twofold
