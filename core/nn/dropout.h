// Dropout (Srivastava et al. 2014), scaled by 1 / (1 - p) in training.
//
// The mask is not stored: it is a function of (seed, step, micro-batch, site, element), and backward draws it
// again with the key that forward used. Where p is 0 or the context is not training, forward and backward
// return the very tensor they are given: nothing is launched and nothing allocated.
#pragma once

#include <string>

#include "core/nn/module.h"

namespace twofold::nn {

class Dropout : public Module {
 public:
  // p in [0, 1). `site` names the random draws; empty: the module's path.
  explicit Dropout(double p, std::string site = "");

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "dropout"; }

 private:
  double p_;
  std::string site_;
};

}  // namespace twofold::nn
