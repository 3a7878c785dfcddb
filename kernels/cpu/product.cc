#include "kernels/cpu/product.h"

namespace twofold::cpu {

Grid ChooseGrid(int64_t m, int64_t n, int64_t k, int64_t threads) {
  constexpr int64_t kUnit = 32;
  constexpr double kLeast = 1 << 18;
  const double volume = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (volume < kLeast * static_cast<double>(threads)) threads = static_cast<int64_t>(volume / kLeast);
  Grid best{1, 1};
  int64_t border = m + n;
  for (int64_t rows = 1; rows <= std::min(threads, (m + kUnit - 1) / kUnit); ++rows) {
    const int64_t columns = std::min(threads / rows, (n + kUnit - 1) / kUnit);
    const int64_t tiles = rows * columns, most = best.rows * best.columns;
    if (tiles < most || (tiles == most && m / rows + n / columns >= border)) continue;
    best = {rows, columns}, border = m / rows + n / columns;
  }
  return best;
}

}  // namespace twofold::cpu
