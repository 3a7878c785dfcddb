#include "strategies/models/chunks.h"

#include <utility>

#include "core/base/check.h"

namespace twofold {

Chunks::Chunks(std::vector<std::unique_ptr<nn::Module>> parts) {
  for (std::unique_ptr<nn::Module>& part : parts) AddChild("", std::move(part));
}

Tensor Chunks::Forward(nn::Context&, const Tensor&, nn::Saved&) {
  TWOFOLD_CHECK(false, "chunks are run one by one");
  return {};
}

Tensor Chunks::BackwardInput(nn::Context&, Tensor, nn::Saved&) {
  TWOFOLD_CHECK(false, "chunks are run one by one");
  return {};
}

void Chunks::BackwardWeights(nn::Context&, nn::Saved&) { TWOFOLD_CHECK(false, "chunks are run one by one"); }

std::vector<nn::Module*> ChunksOf(nn::Module& model) {
  if (model.kind() != Chunks::kKind) return {&model};
  const nn::Module* inner = &model;  // the Chunks inside the wrappers
  while (dynamic_cast<const Chunks*>(inner) == nullptr) inner = inner->children()[0].module;
  std::vector<nn::Module*> chunks;
  for (const nn::Module::NamedChild& child : inner->children()) chunks.push_back(child.module);
  return chunks;
}

}  // namespace twofold
