#include "core/nn/mlp_model.h"
#include "strategies/models/flops.h"
#include "strategies/models/kinds.h"

namespace twofold {
namespace {

nn::MlpConfig ToConfig(const spec::Model& model, DType dtype) {
  const spec::Mlp& mlp = model.mlp();
  return {.inputs = mlp.inputs(),
          .hidden = {mlp.hidden().begin(), mlp.hidden().end()},
          .classes = mlp.classes(),
          .dropout = mlp.dropout(),
          .masks = MasksOf(model),
          .dtype = dtype};
}

}  // namespace

constinit const ModelKind kMlpModel = {
    .name = "mlp",
    .kind = spec::Model::kMlp,
    .input = [](const spec::Model& m) -> ModelInput {
      return {ModelInput::kFeatures, m.mlp().inputs(), m.mlp().classes()};
    },
    .make = [](const spec::Model& m, ModelTypes types, const nn::ModelPart&, nn::Layers&)
        -> std::unique_ptr<nn::Module> { return std::make_unique<nn::MlpModel>(ToConfig(m, types.parameter)); },
    .splits = false,
    .training_flops = TrainingFlopsOf<ToConfig>,
    .hardware_flops = HardwareFlopsOf<ToConfig>,
    .block = "",
    .unit = "linear",
    .blocks = [](const spec::Model&) { return int64_t{0}; },
};

}  // namespace twofold
