// Where a rank's part of an activation lies in the whole, for layers that treat places differently: positions, dropout.
#pragma once

#include <functional>

#include "core/device/ops/op.h"

namespace twofold::nn {

// From the shape of the part, to the places of its rows or of its elements (the layer says which). Null: the part is the whole.
using Placing = std::function<ops::IndexMap(const Shape& part)>;

inline ops::IndexMap PlaceOf(const Placing& placing, const Tensor& part) {
  return placing ? placing(part.shape()) : ops::IndexMap{};
}

}  // namespace twofold::nn
