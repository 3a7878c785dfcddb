#include "core/nn/mlp_model.h"
#include "core/proto/spec.pb.h"
#include "strategies/models/configured_model.h"

namespace twofold {
namespace {

class MlpSizes final : public ConfiguredModel<nn::MlpConfig> {
 public:
  using ConfiguredModel::ConfiguredModel;
  std::string_view block() const override { return ""; }
  std::string_view unit() const override { return "linear"; }
  ModelInput input() const override { return {ModelInput::kFeatures, config_.inputs, config_.classes}; }
  ModelShape shape() const override { return {.layers = config_.layers()}; }
  Boundary BoundaryBefore(int64_t next, const BoundaryShare& share) const override {
    const bool split = share.tp > 1 && config_.is_column(next - 1);
    return {.shape = {share.samples, config_.out(next - 1) / (split ? share.tp : 1)}, .equal = !split};
  }
  std::unique_ptr<nn::Module> Make(ModelTypes types, const nn::ModelPart& part, nn::Layers& layers) const override {
    nn::MlpConfig config = config_;
    config.dtype = types.parameter;
    return std::make_unique<nn::MlpModel>(config, part, layers);
  }
};

std::unique_ptr<const Model> MakeMlp(const google::protobuf::Message& sizes, const ModelOptions& options) {
  const auto& mlp = SizesAs<spec::Mlp>(sizes);
  return std::make_unique<MlpSizes>(kMlpModel, nn::MlpConfig{.inputs = mlp.inputs(),
                                                             .hidden = {mlp.hidden().begin(), mlp.hidden().end()},
                                                             .classes = mlp.classes(),
                                                             .dropout = mlp.dropout(),
                                                             .masks = options.masks});
}

}  // namespace

constinit const ModelKind kMlpModel = {.name = "mlp", .make = MakeMlp};

}  // namespace twofold
