// The shape of matrix products.
#pragma once

#include <cstdint>

namespace twofold {

// `batch` products of [m, k] * [k, n].
struct ProductShape {
  int64_t batch, m, n, k;
  double flops() const { return 2 * static_cast<double>(batch * m * n) * static_cast<double>(k); }
  bool operator==(const ProductShape&) const = default;
};

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace twofold
