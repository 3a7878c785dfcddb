// Which elements of a whole tensor a part holds. The whole, flattened, is viewed as consecutive rows of `row` elements.
// A band is the columns [column, column + width) of every row, and a region is elements [first, first + count) of a
// band, counted row by row. Ranks that split a matrix by rows (or split a vector) hold a contiguous range of it, which
// is a region of the band with all columns. Ranks that split it by columns hold a band.
//
// The elements of a region are numbered 0 to count - 1, in this order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "core/base/check.h"
#include "core/tensor/tensor.h"

namespace twofold {

struct Region {
  int64_t row = 0;                // elements; divides the whole's number of elements
  int64_t column = 0, width = 0;  // column + width <= row; width == row: all columns
  int64_t first = 0, count = 0;   // in the band

  // A contiguous range of a whole of `numel` elements.
  static Region Run(int64_t numel, int64_t first, int64_t count) { return {numel, 0, numel, first, count}; }
  static Region Whole(int64_t numel) { return Run(numel, 0, numel); }
  // The indices [first, first + count) along dimension `dim`.
  static Region Along(const Shape& whole, int dim, int64_t first, int64_t count) {
    TWOFOLD_CHECK(dim < whole.rank() && first >= 0 && count >= 0 && first + count <= whole[dim],
                  "a range along a dimension of the tensor");
    int64_t below = 1;  // elements for each index
    for (int d = dim + 1; d < whole.rank(); ++d) below *= whole[d];
    if (dim == 0) return Run(whole.numel(), first * below, count * below);
    if (count == whole[dim]) return Whole(whole.numel());
    return Region{whole[dim] * below, first * below, count * below}.Band(whole.numel());
  }

  bool contiguous() const { return width == row; }
  // The index of element i in the flattened whole.
  int64_t IndexOf(int64_t i) const { return (first + i) / width * row + column + (first + i) % width; }
  // The number of elements from i on that are contiguous in the whole.
  int64_t RunFrom(int64_t i) const {
    return contiguous() ? count - i : std::min(count - i, width - (first + i) % width);
  }
  // Elements [i, i + n) of this region.
  Region Slice(int64_t i, int64_t n) const { return {row, column, width, first + i, n}; }
  // All of this region's band, in a whole of `numel` elements.
  Region Band(int64_t numel) const { return {row, column, width, 0, numel / row * width}; }
  // Whether this region begins where `before` ends, in the same band.
  bool Continues(const Region& before) const {
    return before == Region{row, column, width, first - before.count, before.count};
  }

  // Visits the contiguous runs in order: elements [i, i + n) are elements [index, index + n) of the whole.
  void ForRuns(absl::FunctionRef<void(int64_t i, int64_t index, int64_t n)> visit) const {
    for (int64_t i = 0, n; i < count; i += n) n = RunFrom(i), visit(i, IndexOf(i), n);
  }
  // Visits the elements of the whole from `index` on, `n` of them, that lie in this region's band, in order: those from
  // index + at on are the `count` elements of the band from `place` on.
  void ForOverlap(int64_t index, int64_t n,
                  absl::FunctionRef<void(int64_t at, int64_t place, int64_t count)> visit) const {
    for (int64_t at = 0, step; at < n; at += step) {
      const int64_t in_row = (index + at) % row;
      step = contiguous() ? n : std::min(n - at, row - in_row);
      const int64_t from = std::max(in_row, column),
                    to = contiguous() ? in_row + step : std::min(in_row + step, column + width);
      if (from < to) visit(at + from - in_row, (index + at) / row * width + from - column, to - from);
    }
  }

  friend bool operator==(const Region&, const Region&) = default;
};

}  // namespace twofold
