#include "strategies/models/model.h"

#include <utility>

#include "core/nn/wide_loss.h"
#include "strategies/models/recompute.h"

namespace twofold {

double Model::TrainingFlops(int64_t samples) const { return 3 * static_cast<double>(samples) * FlopsByBlock().Sum(); }

double Model::HardwareFlops(const nn::Recomputation& recomputation, int64_t samples) const {
  const nn::BlockFlops f = FlopsByBlock();
  double flops = 2 * f.before + 3 * f.after;
  for (size_t i = 0; i < f.blocks.size(); ++i)
    flops += (!block().empty() && recomputation.Has(static_cast<int64_t>(i)) ? 4 : 3) * f.blocks[i];
  return static_cast<double>(samples) * flops;
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

std::unique_ptr<nn::Loss> MakeLoss(const Model& model, ModelTypes types, nn::Layers& layers) {
  const ModelInput input = model.input();
  std::unique_ptr<nn::Loss> loss = (input.kind == ModelInput::kTokens ? layers : nn::OneRank()).MakeLoss(input.classes);
  return types.loss == types.parameter ? std::move(loss) : nn::MakeWideLoss(std::move(loss));
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
