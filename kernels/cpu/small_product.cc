// A block of c, kRows rows by two vectors, is kept in registers while p runs: one broadcast of a for each pair of
// multiply-adds, two vector loads of b for kRows pairs. Compiled with contraction to fused multiply-adds.
#include "kernels/cpu/small_product.h"

#include <cstring>

#include "core/base/check.h"
#include "kernels/cpu/vectors.h"

namespace twofold::cpu {
namespace {

constexpr int64_t kRows = kVectorBytes == 64 ? 8 : 4;

// Loads `width` elements; the rest is 0.
template <class A>
Vector<A> LoadPart(const A* from, int64_t width) {
  Vector<A> v{};
  std::memcpy(&v, from, static_cast<size_t>(width) * sizeof(A));
  return v;
}

// Rows [i, i + kR) and columns [j, j + kV * kLanes) of c; with kPart only the first `width` of the columns.
template <class A, int64_t kR, int64_t kV, bool kAlong, bool kPart>
inline __attribute__((always_inline)) void Block(const SmallProduct<A>& p, int64_t i, int64_t j, int64_t width) {
  using V = Vector<A>;
  V sum[kR][kV] = {};
  const A* rows[kR];
  for (int64_t r = 0; r < kR; ++r) rows[r] = p.a + (kAlong ? i + r : (i + r) * p.a_row);
  const A* b = p.b + j;
  for (int64_t q = 0; q < p.k; ++q, b += p.ldb) {
    V column[kV];
    for (int64_t v = 0; v < kV; ++v) column[v] = kPart ? LoadPart(b, width) : LoadVector(b + v * kVectorLanes<A>);
    const int64_t at = kAlong ? q * p.a_column : q;
#pragma GCC unroll 8
    for (int64_t r = 0; r < kR; ++r) {
      const A one = kAlong ? rows[0][at + r] : rows[r][at];
      for (int64_t v = 0; v < kV; ++v) sum[r][v] += one * column[v];
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kR; ++r) {
    A* c = p.c + (i + r) * p.ldc + j;
    for (int64_t v = 0; v < kV; ++v, c += kVectorLanes<A>) {
      V value = sum[r][v];
      if (p.factor != nullptr) value *= p.factor[i + r];
      if (kPart) {
        if (p.add) value += LoadPart(c, width);
        std::memcpy(c, &value, static_cast<size_t>(width) * sizeof(A));
      } else {
        if (p.add) value += LoadVector(c);
        StoreVector(c, value);
      }
    }
  }
}

template <class A, int64_t kR, bool kAlong>
void Strip(const SmallProduct<A>& p, int64_t i) {
  constexpr int64_t kL = kVectorLanes<A>;
  int64_t j = 0;
  for (; j + 2 * kL <= p.n; j += 2 * kL) Block<A, kR, 2, kAlong, false>(p, i, j, 2 * kL);
  if (j + kL <= p.n) Block<A, kR, 1, kAlong, false>(p, i, j, kL), j += kL;
  if (j < p.n) Block<A, kR, 1, kAlong, true>(p, i, j, p.n - j);
}

template <class A, bool kAlong>
void Strips(const SmallProduct<A>& p) {
  int64_t i = 0;
  for (; i + kRows <= p.m; i += kRows) Strip<A, kRows, kAlong>(p, i);
  for (; i < p.m; ++i) Strip<A, 1, kAlong>(p, i);
}

template <class A>
void MultiplyAny(const SmallProduct<A>& p) {
  if (p.a_row == 1) return Strips<A, true>(p);
  TWOFOLD_CHECK_EQ(p.a_column, 1);
  Strips<A, false>(p);
}

// Transposes squares of registers where they are complete, and single elements elsewhere.
template <class A>
void PackAny(const A* x, int64_t ld, int64_t count, int64_t k, A factor, int64_t lanes, A* panel) {
  constexpr int64_t kL = kVectorLanes<A>;
  const int64_t whole = k / kL * kL;
  int64_t i0 = 0;
  for (; i0 + kL <= count; i0 += kL) {
    for (int64_t p = 0; p < whole; p += kL) {
      Vector<A> square[kL];
#pragma GCC unroll 16
      for (int64_t i = 0; i < kL; ++i) square[i] = factor * LoadVector(x + (i0 + i) * ld + p);
      Transpose<A>(square);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kL; ++i) StoreVector(panel + (p + i) * lanes + i0, square[i]);
    }
  }
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t i = p < whole ? i0 : 0; i < lanes; ++i)
      panel[p * lanes + i] = i < count ? factor * x[i * ld + p] : A(0);
  }
}

}  // namespace

void Multiply(const SmallProduct<float>& p) { MultiplyAny(p); }
void Multiply(const SmallProduct<double>& p) { MultiplyAny(p); }
void PackTransposed(const float* x, int64_t ld, int64_t count, int64_t k, float factor, int64_t lanes, float* panel) {
  PackAny(x, ld, count, k, factor, lanes, panel);
}
void PackTransposed(const double* x, int64_t ld, int64_t count, int64_t k, double factor, int64_t lanes,
                    double* panel) {
  PackAny(x, ld, count, k, factor, lanes, panel);
}

}  // namespace twofold::cpu
