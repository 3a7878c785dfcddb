#include "experiments/program/spec/elastic.h"

#include <memory>

#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

// The learning rate of whichever optimizer there is.
void ScaleLearningRate(spec::Optimizer& optimizer, double factor) {
  if (optimizer.has_sgd()) optimizer.mutable_sgd()->set_lr(optimizer.sgd().lr() * factor);
  if (optimizer.has_adam()) optimizer.mutable_adam()->set_lr(optimizer.adam().lr() * factor);
  if (optimizer.has_adamw()) optimizer.mutable_adamw()->set_lr(optimizer.adamw().lr() * factor);
  if (optimizer.has_one_bit_adam()) optimizer.mutable_one_bit_adam()->set_lr(optimizer.one_bit_adam().lr() * factor);
}

}  // namespace

int64_t RanksToStart(const spec::Spec& spec) {
  const spec::Parallel& p = spec.parallel();
  return WorldSize(spec) + p.pp() * p.cp() * p.tp() * spec.train().elastic().spare_replicas();
}

spec::Spec WithReplicas(const spec::Spec& spec, int64_t dp) {
  spec::Spec other = spec;
  const int64_t before = spec.parallel().dp();
  spec::Train& train = *other.mutable_train();
  if (dp != before && train.elastic().batch() == spec::Elastic::KEEP_LOCAL) {
    train.set_global_batch(train.global_batch() / before * dp);
    ScaleLearningRate(*train.mutable_optimizer(), static_cast<double>(dp) / static_cast<double>(before));
  }
  other.mutable_parallel()->set_dp(dp);
  if (other.fabric().has_simulated()) {  // they name ranks that there may not be
    other.mutable_fabric()->mutable_simulated()->clear_faults();
    other.mutable_fabric()->mutable_simulated()->clear_stragglers();
  }
  if (!train.has_elastic()) return other;
  train.mutable_elastic()->clear_events();
  train.mutable_elastic()->set_spare_replicas(0);
  train.mutable_elastic()->set_min_dp(1);
  train.mutable_elastic()->set_max_dp(dp);
  return other;
}

TrainingOptions TrainingOptionsFor(const spec::Spec& spec) {
  TrainingOptions options = TrainingOptionsOf(spec);
  if (!options.elastic) return options;
  options.elastic->with = [spec](int64_t dp) -> std::shared_ptr<const TrainingOptions> {
    const spec::Spec other = WithReplicas(spec, dp);
    if (!Validate(other, spec.name()).ok()) return nullptr;
    return std::make_shared<const TrainingOptions>(TrainingOptionsOf(other));
  };
  return options;
}

}  // namespace twofold
