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
    .make = [](const spec::Model& m, ModelTypes types, const nn::ModelPart& part,
               nn::Layers& layers) -> std::unique_ptr<nn::Module> {
      return std::make_unique<nn::MlpModel>(ToConfig(m, types.parameter), part, layers);
    },
    .training_flops = TrainingFlopsOf<ToConfig>,
    .hardware_flops = HardwareFlopsOf<ToConfig>,
    .flops_by_block = FlopsByBlockOf<ToConfig>,
    .block = "",
    .unit = "linear",
    .blocks = [](const spec::Model& m) { return int64_t{m.mlp().hidden_size()}; },
    .boundary = [](const spec::Model& m, int64_t next, const BoundaryShare& share) -> Boundary {
      const nn::MlpConfig config = ToConfig(m, DType::kF32);
      const bool split = share.tp > 1 && config.is_column(next - 1);
      return {.shape = {share.samples, config.out(next - 1) / (split ? share.tp : 1)}, .equal = !split};
    },
};

}  // namespace twofold
