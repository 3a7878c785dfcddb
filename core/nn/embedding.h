// Rows of a table, chosen by token ids.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

// x: ids [..], I32 or U8, each below `vocab`; y: [.., hidden]. Parameter: "weight" [vocab, hidden].
// BackwardInput returns an empty tensor: ids have no gradient.
class Embedding : public Module {
 public:
  Embedding(int64_t vocab, int64_t hidden, DType dtype, Init init);

  Tensor Forward(Context& ctx, const Tensor& ids, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "embedding"; }
  Parameter* weight() const { return weight_; }

 private:
  enum Slot { kIds, kDy };
  Parameter* weight_;
};

}  // namespace twofold::nn
