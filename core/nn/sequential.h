// Modules that run one after the other.
#pragma once

#include <string>

#include "core/nn/composite.h"

namespace twofold::nn {

class Sequential : public Composite {
 public:
  // Appends a module and returns it. Call before Finalize.
  template <class M>
  M* Add(std::string name, std::unique_ptr<M> module) {
    return AddChild(std::move(name), std::move(module));
  }

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  void FillSaved(Context& ctx, const Tensor& x, Saved& saved) override;
  std::string_view kind() const override { return "sequential"; }

 protected:
  Tensor Propagate(const Backprop& back, Tensor dy) override;
};

}  // namespace twofold::nn
