// How a GPU sums over the rows of a matrix, in an order that the shape alone says: blocks of rows apart, then their sums.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/device/ops/op.h"

namespace twofold::ops {

// The columns that one block of threads sums at a time: 16 bytes of each row for each of 32 threads.
constexpr int64_t ColumnTile(DType type) { return 32 * (16 / ElementSize(type)); }

// Blocks of rows, so that there are about 512 of columns and rows together, of at least 32 rows each. Of no rows there are none.
inline int64_t RowBlocks(int64_t rows, int64_t columns, DType type) {
  const int64_t tile = ColumnTile(type), tiles = std::max<int64_t>((columns + tile - 1) / tile, 1);
  return std::min((512 + tiles - 1) / tiles, (rows + 31) / 32);
}

// What `sums` sums a column over rows of x need: one of each for a block of rows, (f32).
inline Bytes ColumnSumsWorkspace(int sums, const Tensor& x) {
  const int64_t columns = x.dim(-1), rows = columns == 0 ? 0 : x.numel() / columns;
  return Bytes(sums * RowBlocks(rows, columns, x.dtype()) * columns * ElementSize(AccumulationType(x.dtype())));
}

}  // namespace twofold::ops
