// What models of token sequences share: an embedding, a row of blocks, a head, and how they are split into parts.
#pragma once

#include "core/nn/layers.h"
#include "core/nn/model_part.h"
#include "core/nn/sequential.h"

namespace twofold::nn {

// A part with a tied head but no embedding holds its own copy of "token_embedding.weight". The gradients of both copies
// must be summed (Layers::table_holders), and the embedding's part owns the parameter.
class LanguageModel : public Sequential {
 protected:
  // Adds "token_embedding": a table of `vocab` rows. Returns its weight. `tied_apart`: a head in another part uses it,
  // too.
  Parameter* AddTokenEmbedding(Layers& layers, int64_t vocab, int64_t hidden, DType dtype, Init init, bool tied_apart);
  // Adds "final_norm", and "head" by `linear`. If the head is tied, its weight is `token_table` (null: this part has
  // none).
  void AddHead(Layers& layers, std::unique_ptr<Module> norm, const LinearConfig& linear, bool tied,
               Parameter* token_table);
};

}  // namespace twofold::nn
