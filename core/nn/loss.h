// Softmax cross-entropy, averaged over rows. Not a module: it has two inputs and ends the forward pass.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

class SoftmaxCrossEntropy {
 public:
  // logits: [.., classes]; targets: I32 or U8, one per row, each below `classes`. Returns the mean over rows of -log
  // softmax at the target, as one element, F32 (F64 if the logits are F64).
  static Tensor Forward(Context& ctx, const Tensor& logits, const Tensor& targets, Saved& saved);

  // The loss of each row, [rows], in the same type; saves nothing for a backward pass.
  static Tensor Losses(Context& ctx, const Tensor& logits, const Tensor& targets);

  // The gradient of scale * loss. It overwrites the logits, also for a caller that still holds them. Move the result
  // into the model's backward, so that it can be freed there.
  static Tensor Backward(Context& ctx, Saved& saved, double scale = 1);

 private:
  enum Slot { kLogits, kTargets, kLse };
};

}  // namespace twofold::nn
