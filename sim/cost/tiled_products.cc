#include "sim/cost/tiled_products.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace twofold {
namespace {

constexpr int64_t kLoad = 16;  // bytes that a thread loads at once

}  // namespace

double TiledProducts::Seconds(const ProductShape& p, double flops_per_second, double bytes_per_second,
                              int64_t element_size) const {
  const int64_t splits = p.batch == 1 ? most_splits : 1;
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : tiles) {
    const int64_t count = p.batch * CeilDiv(p.m, tile.rows) * CeilDiv(p.n, tile.columns);
    const double rate = flops_per_second * tile.efficiency / static_cast<double>(multiprocessors);
    for (int64_t s = 1; s <= splits; ++s) {
      const double waves = static_cast<double>(CeilDiv(count * s, multiprocessors));
      const double depth = static_cast<double>(CeilDiv(p.k, s)) + tile_depth;
      double seconds = waves * 2 * static_cast<double>(tile.rows * tile.columns) * depth / rate;
      if (s > 1) seconds += static_cast<double>(p.m * p.n * (4 * s + element_size)) / bytes_per_second;
      best = std::min(best, seconds);
    }
  }
  return best;
}

int64_t RowAlignment(int64_t a_columns, int64_t b_columns, int64_t element_size) {
  return std::gcd(std::gcd(a_columns, b_columns) * element_size, kLoad);
}

}  // namespace twofold
