#include "core/nn/language_model.h"

namespace twofold::nn {
namespace {

// Marks a table that another part of the model also holds.
void ShareApart(Parameter& table, bool owned, GroupTag holders) {
  ShardLayout layout = table.shard_layout();
  for (ShardLayout::Part& part : layout.parts) {
    TWOFOLD_CHECK(part.holders.none(), "a table's gradients are summed over the parts that have it, and no others");
    part.holders = holders;
    part.partial = true;
    part.owned = part.owned && owned;
  }
  table.set_shard_layout(std::move(layout));
  table.set_role(Role::kEmbedding);
}

}  // namespace

Parameter* LanguageModel::AddTokenEmbedding(Layers& layers, int64_t vocab, int64_t hidden, DType dtype, Init init,
                                            bool tied_apart) {
  TokenEmbedding embedding = layers.Embedding(vocab, hidden, dtype, init);
  if (tied_apart) ShareApart(*embedding.weight, true, layers.table_holders());
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
    ShareApart(*table[0], false, layers.table_holders());
  }
}

}  // namespace twofold::nn
