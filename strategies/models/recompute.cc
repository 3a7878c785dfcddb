#include "strategies/models/recompute.h"

#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"

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

void Wrap(nn::Module& parent, size_t child, bool early_stop) {
  parent.WrapChild(
      child, [&](std::unique_ptr<nn::Module> m) { return std::make_unique<nn::Recompute>(std::move(m), early_stop); });
}

}  // namespace

void WrapRecomputed(nn::Module& part, std::string_view block, const nn::Recomputation& recomputation,
                    int64_t first_block) {
  ForEach(part, block, [&](nn::Module& parent, size_t i) {
    if (!recomputation.Has(first_block++)) return;
    if (recomputation.part == nn::Recomputation::kBlock) return Wrap(parent, i, recomputation.early_stop);
    ForEach(*parent.children()[i].module, "attention_core",
            [](nn::Module& attention, size_t core) { Wrap(attention, core, false); });
  });
}

}  // namespace twofold
