// Layers that fuse a GELU into their matrix product: forward in the product before the GELU, backward in the product
// after it. The GELU remains a module of its own and saves its input. The module that holds all three (mlp.h) calls
// these functions instead of the GELU's.
#pragma once

#include "core/nn/module.h"
#include "core/nn/rows.h"

namespace twofold::nn {

class ProductThenGelu {
 public:
  virtual ~ProductThenGelu() = default;
  // Returns gelu(y), where y is what Forward would return; also sets `y`.
  virtual Tensor ForwardGelu(Context& ctx, const Tensor& x, Tensor& y, Saved& saved) = 0;
};

class GeluThenProduct {
 public:
  virtual ~GeluThenProduct() = default;
  // For a forward pass whose input was gelu(x): returns the gradient of x, which is BackwardInput's result times
  // gelu'(x).
  virtual Tensor BackwardInputGelu(Context& ctx, Tensor dy, const Tensor& x, Saved& saved) = 0;
};

// `product` with an epilogue (core/device/ops/product.h); x, y: [.., n].
inline ops::MatMul WithGelu(ops::MatMul product, const Tensor& y) {
  product.epilogue = ops::MatMul::kGelu, product.aux = Rows(y);
  return product;
}
inline ops::MatMul WithGeluSlope(ops::MatMul product, const Tensor& x) {
  product.epilogue = ops::MatMul::kGeluSlope, product.aux = Rows(x);
  return product;
}

}  // namespace twofold::nn
