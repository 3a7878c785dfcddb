#include "strategies/models/kinds.h"

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

}  // namespace twofold
