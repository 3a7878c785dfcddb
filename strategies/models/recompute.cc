#include "strategies/models/recompute.h"

#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "strategies/models/chunks.h"
#include "strategies/models/kinds.h"

namespace twofold {
namespace {

// Visits every module of this kind below `root`, in order, as a child of its parent. Does not descend into visited
// modules.
void ForEach(nn::Module& root, std::string_view kind, absl::FunctionRef<void(nn::Module& parent, size_t child)> visit) {
  for (size_t i = 0; i < root.children().size(); ++i) {
    nn::Module& child = *root.children()[i].module;
    child.kind() == kind ? visit(root, i) : ForEach(child, kind, visit);
  }
}

void Wrap(nn::Module& parent, size_t child) {
  parent.WrapChild(child, [](std::unique_ptr<nn::Module> m) { return std::make_unique<nn::Recompute>(std::move(m)); });
}

}  // namespace

nn::Recomputation RecomputationOf(const spec::Spec& spec) {
  const spec::ActivationCheckpointing& checkpointing = spec.train().activation_checkpointing();
  return {.every = checkpointing.every(),
          .part = checkpointing.recompute() == spec::ActivationCheckpointing::SELECTIVE
                      ? nn::Recomputation::kAttentionCore
                      : nn::Recomputation::kBlock};
}

std::unique_ptr<nn::Module> WithRecompute(std::unique_ptr<nn::Module> model, const spec::Spec& spec,
                                          std::span<const nn::ModelPart> parts) {
  const nn::Recomputation recomputation = RecomputationOf(spec);
  const std::vector<nn::Module*> chunks = ChunksOf(*model);
  for (size_t c = 0; c < chunks.size(); ++c) {
    int64_t block = parts.empty() ? 0 : parts[c].first_block;
    ForEach(*chunks[c], FindModelKind(spec.model().kind_case())->block, [&](nn::Module& parent, size_t i) {
      if (!recomputation.Has(block++)) return;
      if (recomputation.part == nn::Recomputation::kBlock) return Wrap(parent, i);
      ForEach(*parent.children()[i].module, "attention_core", Wrap);
    });
  }
  return model;
}

}  // namespace twofold
