#include "strategies/models/kinds.h"

#include "core/base/check.h"

namespace twofold {
namespace {

constexpr const ModelKind* kKinds[] = {&kGptModel, &kLlamaModel, &kMoeModel, &kMlpModel, &kCnnModel};

}  // namespace

absl::Span<const ModelKind* const> ModelKinds() { return kKinds; }

const ModelKind* FindModelKind(spec::Model::KindCase kind) {
  for (const ModelKind* row : kKinds)
    if (row->kind == kind) return row;
  return nullptr;
}

const ModelKind& KindOf(const spec::Model& model) {
  const ModelKind* kind = FindModelKind(model.kind_case());
  TWOFOLD_CHECK(kind != nullptr, "a resolved spec names its model's sizes");
  return *kind;
}

}  // namespace twofold
