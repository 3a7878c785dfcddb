#include "strategies/models/model.h"

#include <string>
#include <utility>

#include "core/base/check.h"
#include "strategies/models/recompute.h"

namespace twofold {

Shape Model::Boundary(int64_t, int64_t, int64_t) const {
  TWOFOLD_CHECK(false, std::string(name()) + " models are not split");
  return Shape{};
}

std::unique_ptr<nn::Module> MakeModel(const Model& model, ModelTypes types, nn::Layers& layers) {
  const nn::ModelPart whole = nn::ModelPart::Whole(model.shape().layers);
  return std::move(MakeStage(model, types, {&whole, 1}, layers)[0]);
}

std::vector<std::unique_ptr<nn::Module>> MakeStage(const Model& model, ModelTypes types,
                                                   std::span<const nn::ModelPart> parts, nn::Layers& layers,
                                                   const nn::Recomputation& recomputation) {
  std::vector<std::unique_ptr<nn::Module>> chunks;
  for (const nn::ModelPart& part : parts) {
    chunks.push_back(model.Make(types, part, layers));
    chunks.back()->Finalize();
    WrapRecomputed(*chunks.back(), model.block(), recomputation, part.first_block);
  }
  return chunks;
}

int64_t ParameterCount(const Model& model) { return MakeModel(model, DType::kF32)->ParameterCount(); }

int64_t ItemsPerSample(const Model& model) {
  const ModelInput input = model.input();
  return input.kind == ModelInput::kTokens ? input.length : 1;
}

std::string_view ItemName(const Model& model) {
  return model.input().kind == ModelInput::kTokens ? "tokens" : "samples";
}

}  // namespace twofold
