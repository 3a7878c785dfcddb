// Goto and van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication", section 4 and figure 8: b is packed
// in panels of kColumns columns and a in panels of kRows rows, both in the order in which the innermost loop reads
// them; a block of kRows x kColumns of c stays in registers. Compiled with contraction to fused multiply-adds.
#include "kernels/cpu/panel_product.h"

#include <cstring>

#include "core/base/check.h"
#include "kernels/cpu/vectors.h"

namespace twofold::cpu {
namespace {

template <class A>
constexpr int64_t kColumns = 2 * kVectorLanes<A>;
// Two vectors per row of c, plus those of b: uses all registers but one.
constexpr int64_t kRows = kVectorBytes == 64 ? 14 : 6;
// Blocks: a panel of b stays in the L1 cache, a block of a and a block of b in L2.
constexpr int64_t kDepth = 256, kBlockRows = 168, kBlockColumns = 1024, kSpare = 128;
static_assert(kBlockRows % kRows == 0);

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// ---- Packing: panels[j / kWidth][p][j % kWidth] = element j, p; 0 outside the matrix ----

// Packs one panel from x[j * ld + p]: `count` of its kWidth rows exist. Of the last square only the lanes inside the
// panel are stored.
template <class A, int64_t kWidth>
void PackRows(const A* x, int64_t ld, int64_t count, int64_t k, A* panel) {
  constexpr int64_t kL = kVectorLanes<A>;
  int64_t p = 0;
  for (; count == kWidth && p + kL <= k; p += kL) {
    for (int64_t j0 = 0; j0 < kWidth; j0 += kL) {
      Vector<A> square[kL];
#pragma GCC unroll 16
      for (int64_t j = 0; j < kL; ++j) {
        if (j0 + j < kWidth) __builtin_prefetch(x + (j0 + j) * ld + p + 4 * kL);
        square[j] = j0 + j < kWidth ? LoadVector(x + (j0 + j) * ld + p) : Vector<A>{};
      }
      Transpose<A>(square);
      if (kWidth - j0 >= kL) {
#pragma GCC unroll 16
        for (int64_t i = 0; i < kL; ++i) StoreVector(panel + (p + i) * kWidth + j0, square[i]);
      } else {
#pragma GCC unroll 16
        for (int64_t i = 0; i < kL; ++i)
          std::memcpy(panel + (p + i) * kWidth + j0, &square[i], sizeof(A) * static_cast<size_t>(kWidth - j0));
      }
    }
  }
  for (; p < k; ++p) {
    for (int64_t j = 0; j < kWidth; ++j) panel[p * kWidth + j] = j < count ? x[j * ld + p] : A(0);
  }
}

// Packs all panels from x[p * ld + j], some rows at a time, each read from end to end.
template <class A, int64_t kWidth>
void PackColumns(const A* x, int64_t ld, int64_t n, int64_t k, A* panels) {
  constexpr int64_t kAtOnce = 8, kL = kVectorLanes<A>;
  constexpr size_t kWhole = (kWidth + kL - 1) / kL * kL;
  for (int64_t p0 = 0; p0 < k; p0 += kAtOnce) {
    const int64_t end = std::min(k, p0 + kAtOnce);
    int64_t j = 0;
    for (; j + kWidth <= n; j += kWidth) {
      const auto copy = [&](int64_t p, size_t elements) {
        std::memcpy(panels + j * k + p * kWidth, x + p * ld + j, elements * sizeof(A));
      };
      // Copies whole registers: the excess belongs to the next row in both source and destination, and is overwritten
      // later.
      for (int64_t p = p0; p < end; ++p) copy(p, p + 1 < k ? kWhole : kWidth);
    }
    for (int64_t p = p0; j < n && p < end; ++p) {
      A* to = panels + j * k + p * kWidth;
      for (int64_t i = 0; i < kWidth; ++i) to[i] = j + i < n ? x[p * ld + j + i] : A(0);
    }
  }
}

// Packs elements [0, n) x [0, k). The elements of one j are ld apart (`columns`) or contiguous.
template <class A, int64_t kWidth>
void Pack(const A* x, int64_t ld, bool columns, int64_t n, int64_t k, A* panels) {
  if (columns) return PackColumns<A, kWidth>(x, ld, n, k, panels);
  for (int64_t j = 0; j < n; j += kWidth)
    PackRows<A, kWidth>(x + j * ld, ld, std::min(kWidth, n - j), k, panels + j * k);
}

// ---- The block in registers ----

// c (+)= a * b (+ bias) for a whole panel of b and the first kR rows of a panel of a.
template <class A, int64_t kR>
void MultiplyBlock(int64_t k, const A* a, const A* b, A* c, int64_t ldc, bool add, const A* bias) {
  using V = Vector<A>;
  constexpr int64_t kL = kVectorLanes<A>;
#pragma GCC unroll 14
  for (int64_t i = 0; i < kR; ++i) {  // prefetches c, which is needed after k steps
    __builtin_prefetch(c + i * ldc, 1);
    __builtin_prefetch(c + i * ldc + kL, 1);
  }
  V sum[kR][2] = {};
  for (int64_t p = 0; p < k; ++p, a += kRows, b += 2 * kL) {
    const V low = LoadVector(b), high = LoadVector(b + kL);
#pragma GCC unroll 14
    for (int64_t i = 0; i < kR; ++i) {
      sum[i][0] += a[i] * low;
      sum[i][1] += a[i] * high;
    }
  }
  const V low = bias == nullptr ? V{} : LoadVector(bias), high = bias == nullptr ? V{} : LoadVector(bias + kL);
#pragma GCC unroll 14
  for (int64_t i = 0; i < kR; ++i, c += ldc) {
    StoreVector(c, (add ? LoadVector(c) : V{}) + (sum[i][0] + low));
    StoreVector(c + kL, (add ? LoadVector(c + kL) : V{}) + (sum[i][1] + high));
  }
}

// The same if c has only `rows` rows and `columns` columns of the block.
template <class A>
void MultiplyEdge(int64_t k, const A* a, const A* b, A* c, int64_t ldc, bool add, const A* bias, int64_t rows,
                  int64_t columns) {
  A block[kRows * kColumns<A>];
  constexpr int64_t kFew = 4;
  const auto multiply = rows <= kFew ? &MultiplyBlock<A, kFew> : &MultiplyBlock<A, kRows>;
  multiply(k, a, b, block, kColumns<A>, false, nullptr);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const A sum = block[i * kColumns<A> + j] + (bias == nullptr ? A(0) : bias[j]);
      c[i * ldc + j] = add ? c[i * ldc + j] + sum : sum;
    }
  }
}

// ---- The outer loops ----

template <class A>
void MultiplyAny(const Product<A>& p, const A* bias, A* scratch) {
  TWOFOLD_CHECK(p.alpha == A(1) && (p.beta == A(0) || p.beta == A(1)), "alpha is 1, and beta is 0 or 1");
  A* const packed_a = scratch;
  A* const packed_b = scratch + RoundUp(std::min(p.m, kBlockRows), kRows) * std::min(p.k, kDepth) + kSpare / 2;
  for (int64_t j0 = 0; j0 < p.n; j0 += kBlockColumns) {
    const int64_t columns = std::min(kBlockColumns, p.n - j0);
    for (int64_t p0 = 0; p0 == 0 || p0 < p.k; p0 += kDepth) {  // runs once even if k is 0
      const int64_t depth = std::min(kDepth, p.k - p0);
      const bool add = p.beta == A(1) || p0 > 0;
      Pack<A, kColumns<A>>(p.transpose_b ? p.b + j0 * p.ldb + p0 : p.b + p0 * p.ldb + j0, p.ldb, !p.transpose_b,
                           columns, depth, packed_b);
      for (int64_t i0 = 0; i0 < p.m; i0 += kBlockRows) {
        const int64_t rows = std::min(kBlockRows, p.m - i0);
        Pack<A, kRows>(p.transpose_a ? p.a + p0 * p.lda + i0 : p.a + i0 * p.lda + p0, p.lda, p.transpose_a, rows, depth,
                       packed_a);
        for (int64_t j = 0; j < columns; j += kColumns<A>) {
          const A* of_column = bias == nullptr || p0 > 0 ? nullptr : bias + j0 + j;
          for (int64_t i = 0; i < rows; i += kRows) {
            const A *a = packed_a + i * depth, *b = packed_b + j * depth;
            A* c = p.c + (i0 + i) * p.ldc + j0 + j;
            if (i + kRows <= rows && j + kColumns<A> <= columns)
              MultiplyBlock<A, kRows>(depth, a, b, c, p.ldc, add, of_column);
            else
              MultiplyEdge(depth, a, b, c, p.ldc, add, of_column, std::min(kRows, rows - i),
                           std::min(kColumns<A>, columns - j));
          }
        }
      }
    }
  }
}

}  // namespace

int64_t PanelScratch(int64_t m, int64_t n, int64_t k) {
  const int64_t rows = std::min(m + 16, kBlockRows), columns = std::min(RoundUp(n, 32), kBlockColumns);
  return RoundUp((rows + columns) * std::min(k, kDepth), 16) + kSpare;
}

void MultiplyPanels(const Product<float>& p, const float* bias, float* scratch) { MultiplyAny(p, bias, scratch); }
void MultiplyPanels(const Product<double>& p, const double* bias, double* scratch) { MultiplyAny(p, bias, scratch); }

}  // namespace twofold::cpu
