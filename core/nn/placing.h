// Where a rank's part of an activation lies in the whole, for layers that depend on the position: positions, dropout.
#pragma once

#include <functional>

#include "core/device/ops/op.h"

namespace twofold::nn {

// Maps the shape of the part to the indices of its rows or elements in the whole (the layer says which). Null: the part
// is the whole.
using Placing = std::function<ops::IndexMap(const Shape& part)>;

inline ops::IndexMap PlaceOf(const Placing& placing, const Tensor& part) {
  return placing ? placing(part.shape()) : ops::IndexMap{};
}

}  // namespace twofold::nn
