// Products that are too small for packing to pay off: operands are read in place. Used for attention's tiles.
#pragma once

#include <cstdint>

namespace twofold::cpu {

// c[i, j] = factor[i] * sum over p of a[i, p] * b[p, j], or += ; i < m, j < n, p < k. Rows of b and c are ldb and ldc
// elements apart, and their columns are contiguous. Element a[i, p] is at i * a_row + p * a_column; one of the two
// strides is 1, so a is a matrix or a transposed one. Terms are added in the order of p, each by a fused multiply-add;
// no element depends on its neighbours.
template <class A>
struct SmallProduct {
  int64_t m = 0, n = 0, k = 0;
  const A* a = nullptr;
  int64_t a_row = 1, a_column = 1;
  const A* b = nullptr;
  int64_t ldb = 0;
  A* c = nullptr;
  int64_t ldc = 0;
  bool add = false;
  const A* factor = nullptr;  // of each row; null: 1
};

// Runs on the calling thread.
void Multiply(const SmallProduct<float>& p);
void Multiply(const SmallProduct<double>& p);

// panel[p * lanes + i] = factor * x[i * ld + p] for i < count and p < k; 0 for i from count up to `lanes`.
void PackTransposed(const float* x, int64_t ld, int64_t count, int64_t k, float factor, int64_t lanes, float* panel);
void PackTransposed(const double* x, int64_t ld, int64_t count, int64_t k, double factor, int64_t lanes, double* panel);

}  // namespace twofold::cpu
