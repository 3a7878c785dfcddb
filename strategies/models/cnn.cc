#include "core/nn/cnn.h"

#include <numeric>

#include "core/proto/spec.pb.h"
#include "strategies/models/configured_model.h"

namespace twofold {
namespace {

class CnnSizes final : public ConfiguredModel<nn::CnnConfig> {
 public:
  using ConfiguredModel::ConfiguredModel;
  std::string_view block() const override { return "basic_block"; }
  std::string_view unit() const override { return block(); }
  ModelInput input() const override {
    // Absurdly large sizes wrap around here and in shape(); Validate rejects them.
    const auto size = [](int64_t n) { return static_cast<uint64_t>(n); };
    return {.kind = ModelInput::kImages,
            .length = static_cast<int64_t>(size(config_.height) * size(config_.width) * size(config_.channels)),
            .classes = config_.classes,
            .height = config_.height,
            .width = config_.width,
            .channels = config_.channels};
  }
  ModelShape shape() const override {
    return {.layers = static_cast<int64_t>(std::accumulate(config_.blocks.begin(), config_.blocks.end(), uint64_t{0}))};
  }
  Boundary BoundaryBefore(int64_t next, const BoundaryShare& share) const override {
    const nn::CnnBlock before = nn::BlocksOf(config_)[static_cast<size_t>(next) - 1];
    return {.shape = {share.samples, before.height, before.width, before.out}};
  }
  bool synchronizes_statistics() const override { return config_.sync_batch_norm; }
  std::unique_ptr<nn::Module> Make(ModelTypes types, const nn::ModelPart& part, nn::Layers&) const override {
    nn::CnnConfig config = config_;
    config.dtype = types.parameter, config.buffer = types.buffer;
    return std::make_unique<nn::CnnModel>(config, part);
  }
};

std::unique_ptr<const Model> MakeCnn(const google::protobuf::Message& sizes, const ModelOptions&) {
  const auto& cnn = SizesAs<spec::Cnn>(sizes);
  return std::make_unique<CnnSizes>(
      kCnnModel,
      nn::CnnConfig{.channels = cnn.channels(),
                    .height = cnn.height(),
                    .width = cnn.width(),
                    .widths = {cnn.widths().begin(), cnn.widths().end()},
                    .blocks = {cnn.blocks().begin(), cnn.blocks().end()},
                    .classes = cnn.classes(),
                    .stem = cnn.stem() == spec::Cnn::IMAGENET ? nn::CnnConfig::kImageNet : nn::CnnConfig::kSmall,
                    .sync_batch_norm = cnn.sync_batch_norm(),
                    .momentum = cnn.norm_momentum(),
                    .eps = cnn.norm_eps()});
}

}  // namespace

constinit const ModelKind kCnnModel = {.name = "cnn", .make = MakeCnn};

}  // namespace twofold
