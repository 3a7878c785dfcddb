#include "strategies/tensor_parallel/vocabulary.h"

#include <algorithm>

#include "core/nn/rows.h"

namespace twofold {

VocabularyShare::VocabularyShare(int64_t size, const ProcessGroup& group)
    : vocab(size),
      rows((size + group.size() - 1) / group.size()),
      first(std::min(group.rank() * rows, size)),
      classes(std::min(rows, size - first)) {}

std::vector<nn::ShardLayout::Range> VocabularyShare::ranges() const {
  std::vector<nn::ShardLayout::Range> ranges;
  if (classes > 0) ranges.push_back({.first = first, .count = classes});
  if (classes < rows) ranges.push_back({.first = -1, .count = rows - classes});
  return ranges;
}

VocabParallelEmbedding::VocabParallelEmbedding(const TensorParallelExchange& exchange, int64_t vocab, int64_t hidden,
                                               DType dtype, nn::Init init)
    : exchange_(exchange),
      share_(vocab, exchange.group()),
      weight_(AddParameter("weight", Shape{share_.rows, hidden}, dtype, init, nn::Role::kEmbedding)) {
  weight_->set_shard_layout(nn::ShardLayout::Rows(Shape{vocab, hidden}, share_.ranges()));
}

Tensor VocabParallelEmbedding::Forward(nn::Context& ctx, const Tensor& ids, nn::Saved& saved) {
  Tensor partial = ctx.Activation(nn::Append(ids.shape(), weight_->shape()[1]), weight_->dtype());
  ctx.Launch(ops::EmbeddingForward{
      .ids = ids, .table = weight_->data(), .out = partial, .first = share_.first, .vocab = share_.vocab});
  saved[kIds] = ids;
  return exchange_.Leave(ctx, std::move(partial)).Wait(ctx);
}

Tensor VocabParallelEmbedding::BackwardInput(nn::Context&, Tensor dy, nn::Saved& saved) {
  saved[kDy] = std::move(dy);
  return Tensor();
}

void VocabParallelEmbedding::BackwardWeights(nn::Context& ctx, nn::Saved& saved) {
  const Tensor ids = saved.Take(kIds), dy = exchange_.Enter(ctx, saved.Take(kDy)).Wait(ctx);
  const nn::Parameter::Gradient dw = weight_->BeginGradient();
  ctx.Launch(ops::EmbeddingBackward{.ids = ids,
                                    .dy = dy,
                                    .dtable = dw.tensor,
                                    .accumulate = dw.accumulate,
                                    .first = share_.first,
                                    .vocab = share_.vocab});
  weight_->EndGradient();
}

}  // namespace twofold
