#include "core/nn/cnn.h"

#include <numeric>

#include "strategies/models/flops.h"
#include "strategies/models/kinds.h"

namespace twofold {
namespace {

nn::CnnConfig ToConfig(const spec::Model& model, ModelTypes types) {
  const spec::Cnn& cnn = model.cnn();
  return {.channels = cnn.channels(),
          .height = cnn.height(),
          .width = cnn.width(),
          .widths = {cnn.widths().begin(), cnn.widths().end()},
          .blocks = {cnn.blocks().begin(), cnn.blocks().end()},
          .classes = cnn.classes(),
          .stem = cnn.stem() == spec::Cnn::IMAGENET ? nn::CnnConfig::kImageNet : nn::CnnConfig::kSmall,
          .sync_batch_norm = cnn.sync_batch_norm(),
          .momentum = cnn.norm_momentum(),
          .eps = cnn.norm_eps(),
          .dtype = types.parameter,
          .buffer = types.buffer};
}

}  // namespace

constinit const ModelKind kCnnModel = {
    .name = "cnn",
    .kind = spec::Model::kCnn,
    .input = [](const spec::Model& m) -> ModelInput {
      const spec::Cnn& cnn = m.cnn();
      // Absurdly large sizes wrap around here; Validate rejects them.
      const auto size = [](int64_t n) { return static_cast<uint64_t>(n); };
      return {.kind = ModelInput::kImages,
              .length = static_cast<int64_t>(size(cnn.height()) * size(cnn.width()) * size(cnn.channels())),
              .classes = cnn.classes(),
              .height = cnn.height(),
              .width = cnn.width(),
              .channels = cnn.channels()};
    },
    .make = [](const spec::Model& m, ModelTypes types, const nn::ModelPart& part, nn::Layers&)
        -> std::unique_ptr<nn::Module> { return std::make_unique<nn::CnnModel>(ToConfig(m, types), part); },
    .training_flops = TrainingFlopsOf<ToConfig>,
    .hardware_flops = HardwareFlopsOf<ToConfig>,
    .flops_by_block = FlopsByBlockOf<ToConfig>,
    .block = "basic_block",
    .unit = "basic_block",
    .blocks =
        [](const spec::Model& m) {  // absurd sizes wrap, as above
          return static_cast<int64_t>(std::accumulate(m.cnn().blocks().begin(), m.cnn().blocks().end(), uint64_t{0}));
        },
    .boundary = [](const spec::Model& m, int64_t next, const BoundaryShare& share) -> Boundary {
      const nn::CnnBlock before = nn::BlocksOf(ToConfig(m, DType::kF32))[static_cast<size_t>(next) - 1];
      return {.shape = {share.samples, before.height, before.width, before.out}};
    },
};

}  // namespace twofold
