// How a GPU sums over the rows of a matrix, in an order that depends only on the shape: first within blocks of rows,
// then over the blocks' sums.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/device/ops/op.h"

namespace twofold::ops {

// The columns that one block of threads sums at a time: 16 bytes of each row per thread, for 32 threads.
constexpr int64_t ColumnTile(DType type) { return 32 * (16 / ElementSize(type)); }

// The number of blocks of rows. Together with the column tiles there are about 512 blocks, each of at least 32 rows. 0
// if there are no rows.
inline int64_t RowBlocks(int64_t rows, int64_t columns, DType type) {
  const int64_t tile = ColumnTile(type), tiles = std::max<int64_t>((columns + tile - 1) / tile, 1);
  return std::min((512 + tiles - 1) / tiles, (rows + 31) / 32);
}

// Workspace for `sums` sums per column over the rows of x: one value (f32) of each sum per block of rows.
inline Bytes ColumnSumsWorkspace(int sums, const Tensor& x) {
  const int64_t columns = x.dim(-1), rows = columns == 0 ? 0 : x.numel() / columns;
  return Bytes(sums * RowBlocks(rows, columns, x.dtype()) * columns * ElementSize(AccumulationType(x.dtype())));
}

}  // namespace twofold::ops
