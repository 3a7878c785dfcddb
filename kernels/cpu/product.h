// A matrix product as kernels describe it, and its division among threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/thread_pool.h"

namespace twofold::cpu {

// c[m, n] = alpha * op(a) * op(b) + beta * c; row-major; lda/ldb/ldc are row strides in elements. c is not read if beta
// is 0.
template <class A>
struct Product {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  A alpha = 1;
  const A* a = nullptr;
  int64_t lda = 0;
  const A* b = nullptr;
  int64_t ldb = 0;
  A beta = 0;
  A* c = nullptr;
  int64_t ldc = 0;

  // Rows [row, row + rows) and columns [column, column + columns) of c.
  Product Part(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    Product part = *this;
    part.a += transpose_a ? row : row * lda;
    part.b += transpose_b ? column * ldb : column;
    part.c += row * ldc + column;
    part.m = rows, part.n = columns;
    return part;
  }
};

struct Grid {
  int64_t rows, columns;
};
// A grid of at most `threads` tiles of c[m, n], each as close to a square as possible, so that each thread reads the
// least of a and b. There are fewer tiles if a tile would have less than 2^18 multiply-adds or fewer than 32 rows or
// columns.
Grid ChooseGrid(int64_t m, int64_t n, int64_t k, int64_t threads);

// f(thread, row, rows, column, columns) for tiles that cover c[m, n], each on its own thread; `thread` counts from 0.
// Tiles depend only on the sizes and the number of threads.
template <class F>
void ForTiles(ThreadPool& pool, int64_t m, int64_t n, int64_t k, F&& f) {
  constexpr int64_t kUnit = 32;
  const Grid grid = ChooseGrid(m, n, k, pool.threads());
  const auto length = [](int64_t all, int64_t parts) { return (all + parts * kUnit - 1) / (parts * kUnit) * kUnit; };
  const int64_t rows = length(m, grid.rows), columns = length(n, grid.columns);
  pool.ParallelForEach(grid.rows * grid.columns, 1, [&](int64_t tile) {
    const int64_t row = tile / grid.columns * rows, column = tile % grid.columns * columns;
    if (row < m && column < n) f(tile, row, std::min(rows, m - row), column, std::min(columns, n - column));
  });
}

}  // namespace twofold::cpu
