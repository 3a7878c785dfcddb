// Dropout (Srivastava et al. 2014), scaled by 1 / (1 - p) in training.
//
// The mask is a function of (seed, step, micro-batch, site, element). Recomputed, it is not stored: backward draws it again
// with the key that forward used. Stored, it is kept from forward to backward, a byte an element, as PyTorch keeps it; the
// values are the same to the bit. Where p is 0 or the context is not training, forward and backward return the very tensor
// they are given: nothing is launched and nothing allocated.
//
// A rank that holds a part of a tensor draws the part that it has of the whole's mask, where it is told which that is.
#pragma once

#include <functional>
#include <string>

#include "core/nn/module.h"

namespace twofold::nn {

enum class DropoutMasks { kRecomputed, kStored };

// Where in the whole the elements of a local tensor of this shape lie; empty: it is the whole.
using WhereInWhole = std::function<ops::IndexMap(const Shape& local)>;

class Dropout : public Module {
 public:
  // p in [0, 1). `site` names the random draws; empty: the module's path.
  explicit Dropout(double p, DropoutMasks masks = DropoutMasks::kRecomputed, std::string site = "", WhereInWhole where = nullptr);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "dropout"; }

 private:
  enum Slot { kMask };
  double p_;
  DropoutMasks masks_;
  std::string site_;
  WhereInWhole where_;
};

}  // namespace twofold::nn
