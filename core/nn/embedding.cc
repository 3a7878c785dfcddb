#include "core/nn/embedding.h"

#include "core/nn/rows.h"

namespace twofold::nn {

Embedding::Embedding(int64_t vocab, int64_t hidden, DType dtype, Init init)
    : weight_(AddParameter("weight", Shape{vocab, hidden}, dtype, init, Role::kEmbedding)) {}

Tensor Embedding::Forward(Context& ctx, const Tensor& ids, Saved& saved) {
  Tensor y = ctx.Activation(Append(ids.shape(), weight_->shape()[1]), weight_->dtype());
  ctx.Launch(ops::EmbeddingForward{.ids = ids, .table = weight_->data(), .out = y});
  saved[kIds] = ids;
  return y;
}

Tensor Embedding::BackwardInput(Context&, Tensor dy, Saved& saved) {
  saved[kDy] = std::move(dy);
  return Tensor();
}

void Embedding::BackwardWeights(Context& ctx, Saved& saved) {
  const Tensor ids = saved.Take(kIds), dy = saved.Take(kDy);
  const Parameter::Gradient dw = weight_->BeginGradient();
  ctx.Launch(ops::EmbeddingBackward{.ids = ids, .dy = dy, .dtable = dw.tensor, .accumulate = dw.accumulate});
  weight_->EndGradient();
}

}  // namespace twofold::nn
