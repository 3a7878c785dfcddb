#include "strategies/models/model_factory.h"

#include <utility>
#include <vector>

#include "core/base/check.h"
#include "strategies/models/chunks.h"
#include "strategies/models/recompute.h"

namespace twofold {
namespace {

std::unique_ptr<optim::Optimizer> MakeAdam(const spec::Adam& adam, bool decoupled, const optim::Offload& offload,
                                           const optim::LowPrecisionUpdate& low_precision) {
  return optim::MakeAdam({.lr = adam.lr(),
                          .beta1 = adam.beta1(),
                          .beta2 = adam.beta2(),
                          .eps = adam.eps(),
                          .weight_decay = adam.weight_decay(),
                          .decoupled = decoupled},
                         offload, low_precision);
}

}  // namespace

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

std::unique_ptr<nn::Module> MakePart(const spec::Model& model, ModelTypes types, const nn::ModelPart& part,
                                     nn::Layers& layers) {
  std::unique_ptr<nn::Module> module = KindOf(model).make(model, types, part, layers);
  module->Finalize();
  return module;
}

std::unique_ptr<nn::Module> MakeStage(const spec::Model& model, ModelTypes types, std::span<const nn::ModelPart> parts,
                                      nn::Layers& layers) {
  if (parts.size() == 1) return MakePart(model, types, parts[0], layers);
  std::vector<std::unique_ptr<nn::Module>> chunks;
  for (const nn::ModelPart& part : parts) chunks.push_back(KindOf(model).make(model, types, part, layers));
  auto module = std::make_unique<Chunks>(std::move(chunks));
  module->Finalize();
  return module;
}

std::unique_ptr<nn::Module> MakeModel(const spec::Model& model, ModelTypes types, nn::Layers& layers) {
  return MakePart(model, types, nn::ModelPart::Whole(KindOf(model).blocks(model)), layers);
}

std::unique_ptr<nn::Loss> MakeLoss(const spec::Model& model, nn::Layers& layers) {
  const ModelInput input = InputOf(model);
  return (input.kind == ModelInput::kTokens ? layers : nn::OneRank()).MakeLoss(input.classes);
}

int64_t ParameterCount(const spec::Model& model) { return MakeModel(model, DType::kF32)->ParameterCount(); }

ModelInput InputOf(const spec::Model& model) { return KindOf(model).input(model); }

int64_t ItemsPerSample(const spec::Model& model) {
  const ModelInput input = InputOf(model);
  return input.kind == ModelInput::kTokens ? input.length : 1;
}

std::string_view ItemName(const spec::Model& model) {
  return InputOf(model).kind == ModelInput::kTokens ? "tokens" : "samples";
}

double TrainingFlops(const spec::Model& model, int64_t samples) { return KindOf(model).training_flops(model, samples); }

double HardwareFlops(const spec::Spec& spec, int64_t samples) {
  return KindOf(spec.model()).hardware_flops(spec.model(), RecomputationOf(spec), samples);
}

std::unique_ptr<optim::Optimizer> MakeOptimizer(const spec::Train& train, spec::Parallel::Offload offloaded) {
  const spec::Optimizer& optimizer = train.optimizer();
  optim::LowPrecisionUpdate low_precision{.seed = train.seed()};
  if (train.precision().stochastic_rounding()) low_precision.kind = optim::LowPrecisionUpdate::kStochastic;
  const optim::Offload offload{.state = offloaded != spec::Parallel::NO_OFFLOAD};
  switch (optimizer.kind_case()) {
    case spec::Optimizer::kSgd: {
      const spec::Sgd& sgd = optimizer.sgd();
      return optim::MakeSgd(
          {.lr = sgd.lr(), .momentum = sgd.momentum(), .weight_decay = sgd.weight_decay(), .nesterov = sgd.nesterov()},
          offload, low_precision);
    }
    case spec::Optimizer::kAdam: return MakeAdam(optimizer.adam(), /*decoupled=*/false, offload, low_precision);
    case spec::Optimizer::kAdamw:
    case spec::Optimizer::KIND_NOT_SET: return MakeAdam(optimizer.adamw(), /*decoupled=*/true, offload, low_precision);
  }
  return nullptr;
}

optim::LrSchedule MakeSchedule(const spec::Schedule& schedule) {
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

}  // namespace twofold
