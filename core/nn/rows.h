// Layers work on the last dimension; all other dimensions are flattened to rows.
#pragma once

#include <vector>

#include "core/tensor/tensor.h"

namespace twofold::nn {

// [.., c] seen as [rows, c].
inline Tensor Rows(const Tensor& t) { return t.View(Shape{t.numel() / t.dim(-1), t.dim(-1)}); }

// `shape` with another last dimension.
inline Shape WithLast(const Shape& shape, int64_t last) {
  std::vector<int64_t> dims(shape.begin(), shape.end());
  dims.back() = last;
  return Shape(dims);
}

// `shape` with one more dimension at the end.
inline Shape Append(const Shape& shape, int64_t last) {
  std::vector<int64_t> dims(shape.begin(), shape.end());
  dims.push_back(last);
  return Shape(dims);
}

}  // namespace twofold::nn
