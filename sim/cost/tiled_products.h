// What a matrix product takes by the tiles that it is cut into: the formula of gpu_cost_model.h, alone.
#pragma once

#include <cstdint>
#include <vector>

namespace twofold {

struct ProductShape {
  int64_t batch, m, n, k;
  double flops() const { return 2 * static_cast<double>(batch * m * n) * static_cast<double>(k); }
};

struct TiledProducts {
  struct Tile {
    int64_t rows, columns;
    double efficiency;  // times the rate that Seconds is given
  };
  std::vector<Tile> tiles;
  int64_t multiprocessors = 1;
  double tile_depth = 0;
  int64_t most_splits = 1;

  // In the best tile and the best number of splits; operands are there at once. `flops_per_second`: of all multiprocessors together in a
  // tile of efficiency 1; `bytes_per_second`: of the parts of split sums; `element_size`: of the result, in bytes.
  double Seconds(const ProductShape& product, double flops_per_second, double bytes_per_second, int64_t element_size) const;
};

// By how many bytes rows of a product's operands are aligned, 16 at most: `a_columns` and `b_columns` as they lie in memory.
int64_t RowAlignment(int64_t a_columns, int64_t b_columns, int64_t element_size);

}  // namespace twofold
