// Which elements of a tensor a part of it has: seen as rows of `row` elements, one after the other, those of some neighbouring
// columns. Ranks that cut a matrix by its rows (or a vector) have a stretch of the whole, those that cut it by its columns a band.
#pragma once

#include <cstdint>

namespace twofold::checkpoint {

struct Band {
  int64_t row = 0;            // elements; divides the tensor's
  int64_t column = 0, width = 0;
  static Band Whole(int64_t numel) { return {numel, 0, numel}; }
  // Where element i of the band, counted row by row, lies in the flattened whole; and how many follow it there.
  int64_t PlaceOf(int64_t i) const { return i / width * row + column + i % width; }
  int64_t RunFrom(int64_t i) const { return width - i % width; }
  friend bool operator==(const Band&, const Band&) = default;
};

}  // namespace twofold::checkpoint
