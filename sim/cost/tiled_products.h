// The time of a matrix product from the tiles that it is cut into: only the tile formula of gpu_cost_model.h.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/laws/product_shape.h"

namespace twofold {

struct TiledProducts {
  struct Tile {
    int64_t rows, columns;
    double efficiency;  // factor on the flops_per_second of Seconds
  };
  std::vector<Tile> tiles;
  int64_t multiprocessors = 1;
  double tile_depth = 0;
  int64_t most_splits = 1;

  // The time in the best tile with the best number of splits, if reading the operands takes no time.
  // `flops_per_second`: of all multiprocessors together in a tile of efficiency 1; `bytes_per_second`: for the partial
  // sums of splits; `element_size`: of the result, in bytes.
  double Seconds(const ProductShape& product, double flops_per_second, double bytes_per_second,
                 int64_t element_size) const;
};

// The alignment of the rows of a product's operands in bytes, at most 16; `a_columns` and `b_columns` as they are in
// memory.
int64_t RowAlignment(int64_t a_columns, int64_t b_columns, int64_t element_size);

}  // namespace twofold
