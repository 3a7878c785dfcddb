// A token embedding table split by rows, and the head that uses one. Rank r of n holds rows [r v, (r + 1) v) of a
// vocabulary that is padded at its end to n v rows. (Shoeybi et al. 2019, section 3, pad it to a multiple of 128 n for
// efficient matrix products; to do so, give the model such a vocabulary.) Padding is and stays zero. It takes no part
// in the loss, in norms or in checkpoints.
//
// With a micro-batch of b sequences of t tokens, h features and elements of e bytes, and M = b t h e:
//   memory         1/n of the table, its gradient and its optimizer state; the ids of all tokens
//   communication  forward: a rank's output rows are zero for ids that other ranks hold, and the outputs are summed:
//                  2 M (n - 1) / n bytes sent by each rank, or half with sequence parallelism (a reduce-scatter).
//                  Backward: none, or with sequence parallelism an all-gather of the output's gradient, M (n - 1) / n
//   compute        every rank looks at all ids and writes all rows
// Use it whenever layers are split: in a small model the table is most of the memory, and the head most of the work.
// Limits: nothing hides its messages. The first block waits for the sum, and the gathered gradient is the last thing
// that a backward pass needs.
// The head is a ColumnParallelLinear over the same rows. Its logits stay split (cross_entropy.h).
#pragma once

#include <vector>

#include "core/nn/module.h"
#include "strategies/tensor_parallel/exchange.h"

namespace twofold {

// One rank's share of a vocabulary: `rows` rows of the padded table from row `first` on. The first `classes` of them
// are words, the others padding.
struct VocabularyShare {
  VocabularyShare(int64_t vocab, const ProcessGroup& group);
  int64_t vocab, rows, first, classes;
  std::vector<nn::ShardLayout::Range> ranges() const;  // ranges of rows: words, then padding
};

// x: ids [b, t] (I32 or U8); y: [b, t, hidden] (this rank's rows of it, see exchange.h). Parameter: "weight"
// [vocab, hidden].
class VocabParallelEmbedding final : public nn::Module {
 public:
  VocabParallelEmbedding(const TensorParallelExchange& exchange, int64_t vocab, int64_t hidden, DType dtype,
                         nn::Init init);

  Tensor Forward(nn::Context& ctx, const Tensor& ids, nn::Saved& saved) override;
  Tensor BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) override;
  void BackwardWeights(nn::Context& ctx, nn::Saved& saved) override;
  std::string_view kind() const override { return "embedding"; }
  nn::Parameter* weight() const { return weight_; }

 private:
  enum Slot { kIds, kDy };
  const TensorParallelExchange exchange_;
  const VocabularyShare share_;
  nn::Parameter* weight_;
};

}  // namespace twofold
