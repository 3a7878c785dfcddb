// Defaults. Constant ones are in spec.proto and are copied by reflection; those that depend on other fields or on a
// choice are here.
#include <google/protobuf/message.h>

#include <algorithm>
#include <filesystem>

#include "core/base/status.h"
#include "experiments/program/spec/models/default_to.h"
#include "experiments/program/spec/models/rules.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void SetToDefault(Message& m, const FieldDescriptor* f) {
  const Reflection* r = m.GetReflection();
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64: return r->SetInt64(&m, f, f->default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT64: return r->SetUInt64(&m, f, f->default_value_uint64());
    case FieldDescriptor::CPPTYPE_DOUBLE: return r->SetDouble(&m, f, f->default_value_double());
    case FieldDescriptor::CPPTYPE_BOOL: return r->SetBool(&m, f, f->default_value_bool());
    case FieldDescriptor::CPPTYPE_STRING: return r->SetString(&m, f, f->default_value_string());
    case FieldDescriptor::CPPTYPE_ENUM: return r->SetEnum(&m, f, f->default_value_enum());
    default: return;  // messages have no default; no spec field has another type
  }
}

// Writes out every `[default = ...]` of spec.proto, in `m` and its blocks.
void FillConstants(Message& m) {
  const Reflection* r = m.GetReflection();
  for (int i = 0; i < m.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* f = m.GetDescriptor()->field(i);
    if (f->is_repeated()) continue;
    if (f->message_type() != nullptr) {
      if (r->HasField(m, f)) FillConstants(*r->MutableMessage(&m, f));
    } else if (f->has_default_value() && !r->HasField(m, f)) {
      SetToDefault(m, f);
    }
  }
}

// Creates every mandatory block, and chooses the default member of each oneof.
void MakeBlocks(spec::Spec& spec) {
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  const bool words = model == nullptr || model->input().kind == ModelInput::kTokens;
  spec::Data& data = *spec.mutable_data();
  if (data.kind_case() == spec::Data::KIND_NOT_SET) words ? (void)data.mutable_text() : (void)data.mutable_synthetic();
  if (data.has_text() && !data.text().has_path()) data.mutable_text()->set_path("");
  spec::Train& train = *spec.mutable_train();
  spec::Optimizer& optimizer = *train.mutable_optimizer();
  if (optimizer.kind_case() == spec::Optimizer::KIND_NOT_SET) optimizer.mutable_adamw();
  train.mutable_precision();
  if (!train.has_activation_checkpointing()) train.mutable_activation_checkpointing()->set_every(0);
  if (train.schedule().kind_case() == spec::Schedule::KIND_NOT_SET) train.mutable_schedule()->mutable_constant();
  spec.mutable_parallel();
  if (spec.fabric().kind_case() == spec::Fabric::KIND_NOT_SET) spec.mutable_fabric()->mutable_in_memory();
  if (spec.device() == spec::EMULATED) spec.mutable_emulated();
  if (train.validation().has_data()) {
    spec::Data& validation = *train.mutable_validation()->mutable_data();
    if (validation.has_text() && !validation.text().has_path()) validation.mutable_text()->set_path("");
  }
  spec.mutable_trace();
  spec.mutable_memory();
}

// The gradient's type and the type of its reduction default to each other; F16 anywhere needs a loss scale.
void FillPrecision(spec::Precision& p) {
  if (!p.has_gradient()) p.set_gradient(p.has_reduce() ? p.reduce() : p.parameter());
  if (!p.has_reduce()) p.set_reduce(p.gradient());
  if (!p.has_loss()) p.set_loss(p.parameter());
  if (!p.has_buffer()) p.set_buffer(p.parameter() == spec::F64 ? spec::F64 : spec::F32);
  if (p.matmul() == spec::Precision::FP8) FillConstants(*p.mutable_fp8());
  const bool half = p.parameter() == spec::F16 || p.gradient() == spec::F16 || p.reduce() == spec::F16;
  if (!half && !p.has_loss_scale()) return;
  if (p.loss_scale().kind_case() == spec::LossScale::KIND_NOT_SET) p.mutable_loss_scale()->mutable_dynamic();
  FillConstants(*p.mutable_loss_scale());
}

void FillSharding(spec::Spec& spec) {
  spec::Parallel& parallel = *spec.mutable_parallel();
  const spec::Parallel::Sharding sharding = parallel.sharding();
  if (!parallel.has_reduce_every_micro_batch()) {
    parallel.set_reduce_every_micro_batch(sharding != spec::Parallel::NO_SHARD &&
                                          sharding != spec::Parallel::SHARD_OPTIMIZER);
  }
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  if (sharding != spec::Parallel::NO_SHARD && model != nullptr &&
      parallel.wrap().policy_case() == spec::Wrap::POLICY_NOT_SET) {
    parallel.mutable_wrap()->set_module(std::string(model->unit()));
  }
}

void FillLocalUpdate(spec::Spec& spec) {
  spec::Train& train = *spec.mutable_train();
  spec::Parallel& parallel = *spec.mutable_parallel();
  const bool local = train.has_local_update();
  if (!parallel.has_islands()) parallel.set_islands(local ? parallel.dp() : 1);
  if (!train.has_report_loss_every()) train.set_report_loss_every(local ? EveryStepsOf(train.local_update()) : 1);
  if (!train.local_update().has_streaming()) return;
  spec::Streaming& streaming = *train.mutable_local_update()->mutable_streaming();
  if (!streaming.has_weight()) streaming.set_weight(streaming.overlap_steps() == 0 ? 1 : 0.5);
}

void FillAsyncSgd(spec::Train& train) {
  if (!train.has_async_sgd()) return;
  spec::AsyncSgd& async = *train.mutable_async_sgd();
  const bool gossip = async.mode() == spec::AsyncSgd::GOSSIP;
  if (!async.has_servers()) async.set_servers(gossip ? 0 : 1);
  if (!async.has_staleness()) async.set_staleness(gossip ? -1 : 4);
}

void FillDependent(spec::Spec& spec) {
  spec::Train& train = *spec.mutable_train();
  DefaultTo(train, train.has_global_batch(), &spec::Train::set_global_batch, spec.parallel().dp(), train.micro_batch());
  if (const ModelRules* rules = FindModelRules(spec.model().kind_case())) rules->fill(*spec.mutable_model());
  spec::Optimizer& optimizer = *train.mutable_optimizer();
  if (optimizer.has_adam() && !optimizer.adam().has_weight_decay()) optimizer.mutable_adam()->set_weight_decay(0);
  if (optimizer.has_adamw() && !optimizer.adamw().has_weight_decay()) optimizer.mutable_adamw()->set_weight_decay(0.01);
  FillPrecision(*train.mutable_precision());
  FillLocalUpdate(spec);
  FillSharding(spec);
  if (!train.activation_checkpointing().has_every()) train.mutable_activation_checkpointing()->set_every(1);
  if (train.has_validation() && !train.validation().has_batch()) {
    train.mutable_validation()->set_batch(train.micro_batch());
  }
}

// Fills what follows from the number of steps.
void FillFromSteps(spec::Train& train) {
  if (!train.has_warmup_steps())
    train.set_warmup_steps(std::clamp<int64_t>(train.steps(), 1, train.warmup_steps() + 1) - 1);
  spec::Schedule& schedule = *train.mutable_schedule();
  if (schedule.has_cosine() && !schedule.cosine().has_decay_steps()) {
    schedule.mutable_cosine()->set_decay_steps(train.steps());
  }
  if (schedule.has_linear() && !schedule.linear().has_decay_steps()) {
    schedule.mutable_linear()->set_decay_steps(train.steps());
  }
}

// The number of validation samples. Held-out samples must leave some for training.
absl::Status ResolveValidation(spec::Validation& v, const std::string& file, const DataSizes& sizes) {
  const int64_t available = v.has_data() ? sizes.validation : sizes.data,
                most = v.has_data() ? available : available - 1;
  if (!v.has_samples()) {
    const double share = v.has_fraction() ? v.fraction() : 0.1;
    const auto part = static_cast<int64_t>(share * static_cast<double>(available));
    v.set_samples(v.has_data() ? available : std::max<int64_t>(1, part));
  }
  v.clear_fraction();
  if (v.samples() <= most) return absl::OkStatus();
  if (most < 1) {
    return InvalidArgument(file,
                           ": train.validation: the data has 1 sample, of which none can be held out; give more data, "
                           "or train.validation.data");
  }
  return InvalidArgument(file, ": train.validation.samples: ", v.samples(),
                         v.has_data() ? " are more than train.validation.data has, " : " leave no training data of ",
                         available, " samples; use at most ", most);
}

}  // namespace

absl::Status ResolveLength(spec::Spec& spec, const std::string& file, const DataSizes& sizes) {
  constexpr int64_t kMostSteps = int64_t{1} << 31;  // the same bound as in Validate
  spec::Train& train = *spec.mutable_train();
  if (!train.has_epochs() && !train.has_validation()) return absl::OkStatus();
  int64_t samples = sizes.data;
  if (train.has_validation()) {
    spec::Validation& validation = *train.mutable_validation();
    if (absl::Status status = ResolveValidation(validation, file, sizes); !status.ok()) return status;
    if (!validation.has_data()) samples -= validation.samples();
  }
  const int64_t steps_of_epoch = (samples + train.global_batch() - 1) / train.global_batch();
  if (train.has_epochs()) {
    if (const int64_t most = kMostSteps / steps_of_epoch; train.epochs() > most) {
      return InvalidArgument(file, ": train.epochs: ", train.epochs(), " of ", steps_of_epoch,
                             " steps each are more than ", kMostSteps, " steps; use fewer epochs");
    }
    train.set_steps(train.epochs() * steps_of_epoch);
    train.clear_epochs();
    FillFromSteps(train);
  }
  if (train.has_validation() && !train.validation().has_every_steps()) {
    train.mutable_validation()->set_every_steps(steps_of_epoch);
  }
  return Validate(spec, file);
}

void FillDefaults(spec::Spec& spec, const std::string& file) {
  if (!spec.has_name()) spec.set_name(std::filesystem::path(file).stem().string());
  MakeBlocks(spec);
  FillDependent(spec);
  FillAsyncSgd(*spec.mutable_train());
  spec::Train& train = *spec.mutable_train();
  if (train.has_elastic() && !train.elastic().has_max_dp()) train.mutable_elastic()->set_max_dp(spec.parallel().dp());
  const bool length_known = train.has_steps() || !train.has_epochs(), warmup_known = train.has_warmup_steps();
  if (length_known) FillFromSteps(train);
  FillConstants(spec);
  if (!length_known) {  // ResolveLength fills these
    train.clear_steps();
    if (!warmup_known) train.clear_warmup_steps();
  }
}

}  // namespace twofold
