// Element-wise operations.
#pragma once

#include "core/base/philox.h"
#include "core/device/ops/op.h"

namespace twofold::ops {

struct Fill {
  Tensor out;
  double value = 0;
};
struct Cast {
  Tensor in, out;
};  // any dtypes; a copy if they are equal
struct Affine {
  Tensor in, out;
  double scale = 1, shift = 0;
};  // out = scale * in + shift; `in` of any dtype (pixels)
struct Add {
  Tensor a, b, out;
};
struct AddRelu {
  Tensor a, b, out;
};  // out = max(a + b, 0); may be in place
struct AddTo {
  Tensor in, out /*(acc)*/;
};  // out += in
struct Scale {
  Tensor x;
  double factor = 1;
  Tensor by /* (f32)[1], may be empty: factor * by[0] */;
};  // in place
struct ActivationForward {
  enum Kind { kRelu, kGelu, kSquaredRelu } kind;
  Tensor x, y;
};  // GELU: tanh form, as in GPT-2. Squared ReLU: max(x, 0)^2
struct ActivationBackward {
  ActivationForward::Kind kind;
  Tensor x, dy, dx;
};  // dx may be dy
// y = x * keep / (1 - p), with keep drawn from (key, element index). It is its own backward, applied to dy.
struct Dropout {
  Tensor x, y;
  double p = 0;
  PhiloxKey key;
  IndexMap where = {};
};
// The same values. Also writes keep to mask [numel] (U8: 1 or 0), for a backward pass that reads it.
struct MaskedDropoutForward {
  Tensor x, y, mask;
  double p = 0;
  PhiloxKey key;
  IndexMap where = {};
};
struct MaskedDropoutBackward {
  Tensor dy, mask, dx;
  double p = 0;
};  // dx may be dy

}  // namespace twofold::ops
