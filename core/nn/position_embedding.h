// Learned positions: adds row i of a table to the row at position i.
#pragma once

#include "core/nn/module.h"
#include "core/nn/placing.h"

namespace twofold::nn {

// x, y: [batch, t, hidden] with t <= sequence. Parameter: "weight" [sequence, hidden].
class PositionEmbedding : public Module {
 public:
  // `positions`: the positions of x's rows; null: x holds whole sequences.
  PositionEmbedding(int64_t sequence, int64_t hidden, DType dtype, Init init, Placing positions = nullptr);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;  // dy itself
  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "position_embedding"; }

 private:
  enum Slot { kDy };
  Parameter* weight_;
  Placing positions_;
};

}  // namespace twofold::nn
