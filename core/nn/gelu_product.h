// Layers that do a GELU in the pass of a product of theirs: forward the one before it, backward the one after it. The GELU stays a
// module of its own, which keeps what it is taken of; who holds all three (mlp.h) asks these in its place.
#pragma once

#include "core/nn/module.h"
#include "core/nn/rows.h"

namespace twofold::nn {

class ProductThenGelu {
 public:
  virtual ~ProductThenGelu() = default;
  // gelu(y) of what Forward gives; `y` is that.
  virtual Tensor ForwardGelu(Context& ctx, const Tensor& x, Tensor& y, Saved& saved) = 0;
};

class GeluThenProduct {
 public:
  virtual ~GeluThenProduct() = default;
  // Where forward was given gelu(x): the gradient of x, which is BackwardInput's times gelu'(x).
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
