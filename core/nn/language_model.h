// What models of token sequences share: an embedding, a row of blocks, a head, and how they are cut into parts.
#pragma once

#include "core/nn/layers.h"
#include "core/nn/sequential.h"

namespace twofold::nn {

// Which consecutive part of the model a pipeline stage holds. Parameters have the names, hence the initial
// values, that they have in the whole. A tied head without the embedding holds its own
// "token_embedding.weight": both parts' have gradients to be summed (ShardLayout::Sum::kEmbedding), and the embedding owns it.
struct ModelPart {
  int64_t first_block = 0, last_block = 0;  // [first, last)
  bool embedding = true, head = true;
  static ModelPart Whole(int64_t layers) { return {0, layers, true, true}; }
};

class LanguageModel : public Sequential {
 protected:
  // "token_embedding": a table of `vocab` rows. Returns its weight. `tied_apart`: a head in another part uses it, too.
  Parameter* AddTokenEmbedding(Layers& layers, int64_t vocab, int64_t hidden, DType dtype, Init init, bool tied_apart);
  // "final_norm", and "head": `linear`, whose weight is `token_table` where the head is tied (null: the part has none).
  void AddHead(Layers& layers, std::unique_ptr<Module> norm, const LinearConfig& linear, bool tied, Parameter* token_table);
};

}  // namespace twofold::nn
