#include "core/nn/language_model.h"

#include "core/nn/embedding.h"

namespace twofold::nn {

Parameter* LanguageModel::AddTokenEmbedding(int64_t vocab, int64_t hidden, DType dtype, Init init) {
  return Add("token_embedding", std::make_unique<Embedding>(vocab, hidden, dtype, init))->weight();
}

void LanguageModel::AddHead(std::unique_ptr<Module> norm, const LinearConfig& linear, bool tied, Parameter* token_table) {
  Add("final_norm", std::move(norm));
  if (tied && token_table != nullptr) {
    Add("head", std::make_unique<Linear>(linear, token_table));
  } else {  // under the embedding's name, a tied head starts from the embedding's values
    Add(tied ? "token_embedding" : "head", std::make_unique<Linear>(linear));
  }
}

}  // namespace twofold::nn
