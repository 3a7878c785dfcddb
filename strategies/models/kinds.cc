#include "strategies/models/kinds.h"

namespace twofold {
namespace {

constexpr const ModelKind* kKinds[] = {&kGptModel, &kLlamaModel, &kMoeModel, &kMlpModel, &kCnnModel};

}  // namespace

absl::Span<const ModelKind* const> ModelKinds() { return kKinds; }

const ModelKind* FindModelKind(std::string_view name) {
  for (const ModelKind* row : kKinds)
    if (row->name == name) return row;
  return nullptr;
}

}  // namespace twofold
