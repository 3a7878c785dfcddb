// Softmax cross-entropy of logits that are split by classes, without gathering them (Shoeybi et al. 2019, section 3:
// "we fuse the output of the parallel GEMM with the cross entropy loss which reduces the dimension to b x s").
//
// With n ranks and R rows (tokens) in the micro-batch, f = 4 bytes (8 in F64):
//   memory         1/n of the logits, which their gradient overwrites; a few numbers per row
//   communication  forward: all-reduces of R f bytes (the largest logit) and 2 R f bytes (the sum of exponentials and
//                  the target's logit, in one message); backward: none. Gathering the logits of V classes would send
//                  R V (n - 1) / n elements from each rank
//   compute        1/n of the exponentials
// Use it with a vocabulary-parallel head (vocabulary.h).
// Limits: nothing hides the two messages, since each depends on the result before it.
#pragma once

#include "core/nn/layers.h"
#include "strategies/tensor_parallel/vocabulary.h"

namespace twofold {

// logits: [.., local rows of the padded vocabulary]; targets: ids in the whole vocabulary. Every rank gets the same
// losses.
class VocabParallelCrossEntropy final : public nn::Loss {
 public:
  // The group must outlive it.
  VocabParallelCrossEntropy(ProcessGroup& group, int64_t vocab) : group_(group), share_(vocab, group) {}

  Tensor Forward(nn::Context& ctx, const Tensor& logits, const Tensor& targets, nn::Saved& saved) override;
  Tensor Backward(nn::Context& ctx, nn::Saved& saved, double scale) override;
  Tensor Losses(nn::Context& ctx, const Tensor& logits, const Tensor& targets) override;
  void CountCorrect(nn::Context& ctx, const Tensor& logits, const Tensor& targets, const Tensor& total) override;

 private:
  enum Slot { kLogits, kTargets, kLse };
  struct OfRows {
    Tensor largest, sums;
  };
  OfRows Reduce(nn::Context& ctx, const Tensor& logits, const Tensor& targets, int64_t sums_a_row) const;

  ProcessGroup& group_;
  const VocabularyShare share_;
};

}  // namespace twofold
