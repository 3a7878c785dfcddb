#include "core/nn/language_model.h"

namespace twofold::nn {

Parameter* LanguageModel::AddTokenEmbedding(Layers& layers, int64_t vocab, int64_t hidden, DType dtype, Init init) {
  TokenEmbedding embedding = layers.Embedding(vocab, hidden, dtype, init);
  Add("token_embedding", std::move(embedding.module));
  return embedding.weight;
}

void LanguageModel::AddHead(Layers& layers, std::unique_ptr<Module> norm, const LinearConfig& linear, bool tied, Parameter* token_table) {
  Add("final_norm", std::move(norm));
  if (tied && token_table != nullptr) {
    Add("head", layers.Head(linear, token_table));
  } else {  // under the embedding's name, a tied head starts from the embedding's values
    Add(tied ? "token_embedding" : "head", layers.Head(linear, nullptr));
  }
}

}  // namespace twofold::nn
