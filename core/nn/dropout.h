// Dropout (Srivastava et al. 2014), scaled by 1 / (1 - p) in training.
//
// The mask is a function of (seed, step, micro-batch, site, element). kRecomputed does not store it: backward draws it
// again with the key that forward used. kStored keeps it from forward to backward, one byte per element, as PyTorch
// does. Both give the same values to the bit. If p is 0 or the context is not training, forward and backward return
// their argument itself: they launch and allocate nothing.
#pragma once

#include <string>

#include "core/nn/module.h"
#include "core/nn/placing.h"

namespace twofold::nn {

enum class DropoutMasks { kRecomputed, kStored };

class Dropout : public Module {
 public:
  // p in [0, 1). `site` names the random draws; empty: the module's path. `places`: indices of the elements in the
  // whole, which key their draws.
  explicit Dropout(double p, DropoutMasks masks = DropoutMasks::kRecomputed, std::string site = "",
                   Placing places = nullptr);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  // Reads x only if masks are stored.
  void FillSaved(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "dropout"; }

 private:
  enum Slot { kMask };
  PhiloxKey RandomKey(const Context& ctx) const;
  double p_;
  DropoutMasks masks_;
  std::string site_;
  Placing places_;
};

}  // namespace twofold::nn
