#include "core/nn/language_model.h"

namespace twofold::nn {
namespace {

// Marks a table that another part has as well.
void ShareApart(Parameter& table, bool owned) {
  ShardLayout cut = table.shard_layout();
  for (ShardLayout::Range& range : cut.ranges) {
    TWOFOLD_CHECK(range.sum == ShardLayout::Sum::kNone,
                  "a table's gradients are summed over the stages that have it, and no others");
    range.sum = ShardLayout::Sum::kEmbedding;
    range.owned = range.owned && owned;
  }
  table.set_shard_layout(std::move(cut));
}

}  // namespace

Parameter* LanguageModel::AddTokenEmbedding(Layers& layers, int64_t vocab, int64_t hidden, DType dtype, Init init,
                                            bool tied_apart) {
  TokenEmbedding embedding = layers.Embedding(vocab, hidden, dtype, init);
  if (tied_apart) ShareApart(*embedding.weight, true);
  Add("token_embedding", std::move(embedding.module));
  return embedding.weight;
}

void LanguageModel::AddHead(Layers& layers, std::unique_ptr<Module> norm, const LinearConfig& linear, bool tied,
                            Parameter* token_table) {
  Add("final_norm", std::move(norm));
  if (tied && token_table != nullptr) {
    Add("head", layers.Head(linear, token_table));
  } else {  // has the embedding's name, so a tied head starts from the embedding's values
    const Module* head = Add(tied ? "token_embedding" : "head", layers.Head(linear, nullptr));
    if (!tied) return;
    const std::vector<Parameter*> table = head->Parameters();
    TWOFOLD_CHECK_EQ(table.size(), size_t{1});
    ShareApart(*table[0], false);
  }
}

}  // namespace twofold::nn
