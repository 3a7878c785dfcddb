// Learned positions: adds row i of a table to position i.
#pragma once

#include <functional>

#include "core/nn/module.h"

namespace twofold::nn {

// Where the rows of a local tensor of this shape lie in their sequences (PositionForward::rows).
using PositionsOfRows = std::function<ops::IndexMap(const Shape& local)>;

// x, y: [batch, t, hidden] with t <= sequence. Parameter: "weight" [sequence, hidden].
class PositionEmbedding : public Module {
 public:
  // `positions`: where x is a part of the sequences; empty: it is all of them.
  PositionEmbedding(int64_t sequence, int64_t hidden, DType dtype, Init init, PositionsOfRows positions = nullptr);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;  // dy itself
  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "position_embedding"; }

 private:
  enum Slot { kDy };
  ops::IndexMap Positions(const Tensor& x) const { return positions_ ? positions_(x.shape()) : ops::IndexMap{}; }

  Parameter* weight_;
  PositionsOfRows positions_;
};

}  // namespace twofold::nn
