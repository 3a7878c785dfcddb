// The elements of a tensor that belong to one part of it. The tensor is viewed as consecutive rows of `row` elements,
// and a band is a range of adjacent columns of these rows. Ranks that split a matrix by rows (or split a vector) hold a
// contiguous range of the tensor. Ranks that split it by columns hold a band.
#pragma once

#include <cstdint>

namespace twofold::checkpoint {

struct Band {
  int64_t row = 0;  // elements; divides the tensor's number of elements
  int64_t column = 0, width = 0;
  static Band Whole(int64_t numel) { return {numel, 0, numel}; }
  // PlaceOf: the index of element i of the band, counted row by row, in the flattened tensor. RunFrom: the number of
  // contiguous elements from there on.
  int64_t PlaceOf(int64_t i) const { return i / width * row + column + i % width; }
  int64_t RunFrom(int64_t i) const { return width - i % width; }
  friend bool operator==(const Band&, const Band&) = default;
};

}  // namespace twofold::checkpoint
