// The products below the operations: how they are divided, packed panels, and small ones.
#include "kernels/cpu/product.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <ostream>
#include <random>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/small_product.h"
#include "tests/seed.h"

namespace twofold::cpu {

bool operator==(const Grid& a, const Grid& b) { return a.rows == b.rows && a.columns == b.columns; }
void PrintTo(const Grid& g, std::ostream* out) { *out << g.rows << " x " << g.columns; }

namespace product_test {

size_t At(int64_t i) { return static_cast<size_t>(i); }

// ---- How c is divided ----

TEST(ChooseGrid, IsAsSquareAsTheThreadsAllow) {
  EXPECT_EQ(ChooseGrid(512, 512, 512, 1), (Grid{1, 1}));
  EXPECT_EQ(ChooseGrid(512, 512, 512, 4), (Grid{2, 2}));
  EXPECT_EQ(ChooseGrid(4096, 1024, 64, 4), (Grid{4, 1}));
  EXPECT_EQ(ChooseGrid(1024, 4096, 64, 4), (Grid{1, 4}));
  EXPECT_EQ(ChooseGrid(512, 2048, 512, 16), (Grid{2, 8}));
}

TEST(ChooseGrid, LeavesThreadsIdleRatherThanMakeTinyTiles) {
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{0, 64, 64}, {64, 0, 64}, {64, 64, 0}, {1, 1, 1}, {64, 64, 64}, {64, 64, 127}})
    EXPECT_EQ(ChooseGrid(m, n, k, 8), (Grid{1, 1})) << m << " " << n << " " << k;
  EXPECT_EQ(ChooseGrid(64, 32, 256, 8), (Grid{2, 1}));    // 2^19 multiply-adds
  EXPECT_EQ(ChooseGrid(33, 31, 65536, 8), (Grid{2, 1}));  // the second tile is one row high
  EXPECT_EQ(ChooseGrid(32, 32, 65536, 8), (Grid{1, 1}));
  EXPECT_EQ(ChooseGrid(int64_t{1} << 40, int64_t{1} << 40, 1 << 20, 6), (Grid{2, 3}));
}

TEST(ForTiles, CoverEachElementOnceAndEachOnAThreadOfItsOwn) {
  for (const int threads : {1, 2, 3, 5, 8}) {
    ThreadPool pool(threads);
    for (const auto& [m, n] :
         {std::pair<int64_t, int64_t>{0, 7}, {7, 0}, {1, 1}, {31, 200}, {65, 33}, {96, 1}, {128, 64}, {129, 161}}) {
      std::vector<int> seen(At(m * n));
      std::set<int64_t> tiles;
      std::mutex mutex;
      ForTiles(pool, m, n, 65536, [&](int64_t thread, int64_t row, int64_t rows, int64_t column, int64_t columns) {
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(tiles.insert(thread).second) << thread;
        EXPECT_LT(thread, threads);
        for (int64_t i = row; i < row + rows; ++i)
          for (int64_t j = column; j < column + columns; ++j) ++seen[At(i * n + j)];
      });
      EXPECT_THAT(seen, testing::Each(1)) << m << " x " << n << " on " << threads;
    }
  }
}

// ---- Matrices whose rows have a gap of NaN behind them, and whose end has, too ----

template <class A>
struct Matrix {
  static constexpr int64_t kGap = 3;
  Matrix(int64_t rows, int64_t columns, std::mt19937& rng)
      : rows(rows),
        columns(columns),
        ld(columns + kGap),
        values(At(rows * ld + 64), std::numeric_limits<A>::quiet_NaN()) {
    std::normal_distribution<double> draw;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) values[At(r * ld + c)] = static_cast<A>(draw(rng));
  }
  double at(int64_t r, int64_t c) const { return static_cast<double>(values[At(r * ld + c)]); }
  // Whether what lies outside is NaN still.
  bool GapsAreWhole() const {
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      if ((at >= rows * ld || at % ld >= columns) && !std::isnan(values[i])) return false;
    }
    return true;
  }
  int64_t rows, columns, ld;
  std::vector<A> values;
};

template <class A>
double Tolerance(double terms) {
  return (std::is_same_v<A, float> ? 2e-6 : 1e-14) * (2 + terms / 4);
}

template <class A>
class Products : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Products, Types);

struct PanelCase {
  int64_t m, n, k;
  bool transpose_a, transpose_b, add, bias;
};

template <class A>
void CheckPanels(const PanelCase& o, int threads) {
  std::mt19937 rng(TestSeed());
  const Matrix<A> a(o.transpose_a ? o.k : o.m, o.transpose_a ? o.m : o.k, rng),
      b(o.transpose_b ? o.n : o.k, o.transpose_b ? o.k : o.n, rng);
  const Matrix<A> bias(1, o.n, rng), old(o.m, o.n, rng);
  Matrix<A> c = old;
  if (!o.add) {  // c is not read
    for (int64_t i = 0; i < o.m; ++i)
      std::fill_n(c.values.begin() + i * c.ld, o.n, std::numeric_limits<A>::quiet_NaN());
  }
  const Product<A> whole{.transpose_a = o.transpose_a,
                         .transpose_b = o.transpose_b,
                         .m = o.m,
                         .n = o.n,
                         .k = o.k,
                         .a = a.values.data(),
                         .lda = a.ld,
                         .b = b.values.data(),
                         .ldb = b.ld,
                         .beta = A(o.add ? 1 : 0),
                         .c = c.values.data(),
                         .ldc = c.ld};
  ThreadPool pool(threads);
  const int64_t each = PanelScratch(o.m, o.n, o.k);
  const A canary = A(12345);
  std::vector<std::vector<A>> scratch(At(threads));
  for (auto& memory : scratch)
    memory.assign(At(each), std::numeric_limits<A>::quiet_NaN()), memory.resize(At(each + 64), canary);
  ForTiles(pool, o.m, o.n, o.k, [&](int64_t thread, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    MultiplyPanels(whole.Part(row, rows, column, columns), o.bias ? bias.values.data() + column : nullptr,
                   scratch[At(thread)].data());
  });
  for (const auto& memory : scratch)
    ASSERT_EQ(std::count(memory.begin() + each, memory.end(), canary), 64)
        << "scratch memory is longer than PanelScratch";
  ASSERT_TRUE(c.GapsAreWhole());
  for (int64_t i = 0; i < o.m; ++i) {
    for (int64_t j = 0; j < o.n; ++j) {
      double want = (o.add ? old.at(i, j) : 0) + (o.bias ? bias.at(0, j) : 0);
      for (int64_t p = 0; p < o.k; ++p)
        want += (o.transpose_a ? a.at(p, i) : a.at(i, p)) * (o.transpose_b ? b.at(j, p) : b.at(p, j));
      ASSERT_NEAR(c.at(i, j), want, Tolerance<A>(static_cast<double>(o.k))) << "row " << i << " column " << j;
    }
  }
}

// Sizes around the panels (14 or 6 rows, up to 32 columns) and the blocks (168 x 1024 x 256).
TYPED_TEST(Products, PanelsAgainstPlainLoops) {
  constexpr int64_t kSizes[][3] = {{1, 1, 1},     {0, 5, 3},    {5, 0, 3},    {5, 3, 0},    {3, 7, 5},
                                   {4, 33, 2},    {13, 31, 17}, {14, 32, 16}, {15, 33, 33}, {28, 64, 255},
                                   {29, 17, 257}, {5, 9, 513},  {169, 35, 7}, {6, 1025, 3}, {71, 97, 300}};
  for (const auto& [m, n, k] : kSizes) {
    for (int bits = 0; bits < 16; ++bits) {
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << " variant " << bits << " on " << threads);
        CheckPanels<TypeParam>({m, n, k, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0}, threads);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

// ---- Small products ----

struct SmallCase {
  int64_t m, n, k;
  bool transpose_a, add, factor;
};

template <class A>
void CheckSmall(const SmallCase& o) {
  std::mt19937 rng(TestSeed());
  const Matrix<A> a(o.transpose_a ? o.k : o.m, o.transpose_a ? o.m : o.k, rng), b(o.k, o.n, rng), factor(1, o.m, rng),
      old(o.m, o.n, rng);
  Matrix<A> c = old;
  Multiply(SmallProduct<A>{.m = o.m,
                           .n = o.n,
                           .k = o.k,
                           .a = a.values.data(),
                           .a_row = o.transpose_a ? 1 : a.ld,
                           .a_column = o.transpose_a ? a.ld : 1,
                           .b = b.values.data(),
                           .ldb = b.ld,
                           .c = c.values.data(),
                           .ldc = c.ld,
                           .add = o.add,
                           .factor = o.factor ? factor.values.data() : nullptr});
  ASSERT_TRUE(c.GapsAreWhole());
  for (int64_t i = 0; i < o.m; ++i) {
    for (int64_t j = 0; j < o.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < o.k; ++p) sum += (o.transpose_a ? a.at(p, i) : a.at(i, p)) * b.at(p, j);
      const double want = (o.add ? old.at(i, j) : 0) + (o.factor ? factor.at(0, i) : 1) * sum;
      ASSERT_NEAR(c.at(i, j), want, 4 * Tolerance<A>(static_cast<double>(o.k))) << "row " << i << " column " << j;
    }
  }
}

TYPED_TEST(Products, SmallOnesAgainstPlainLoops) {
  for (const int64_t m : {0, 1, 3, 8, 21}) {
    for (const int64_t n : {0, 1, 5, 8, 16, 31, 32, 47, 67}) {
      for (const int64_t k : {0, 1, 9, 64}) {
        for (int bits = 0; bits < 8; ++bits) {
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << " variant " << bits);
          CheckSmall<TypeParam>({m, n, k, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
}

TYPED_TEST(Products, TransposedPanelsAreZeroWhereThereIsNothing) {
  using A = TypeParam;
  std::mt19937 rng(TestSeed());
  constexpr int64_t kLanes = 32;
  for (const int64_t count : {0, 1, 4, 15, 16, 31, 32}) {
    for (const int64_t k : {0, 1, 8, 15, 16, 17, 40}) {
      const Matrix<A> x(count, k, rng);
      std::vector<A> panel(At(k * kLanes), std::numeric_limits<A>::quiet_NaN());
      panel.resize(panel.size() + 64, A(12345));
      PackTransposed(x.values.data(), x.ld, count, k, A(0.25), kLanes, panel.data());
      for (int64_t p = 0; p < k; ++p)
        for (int64_t i = 0; i < kLanes; ++i)
          ASSERT_EQ(static_cast<double>(panel[At(p * kLanes + i)]), i < count ? 0.25 * x.at(i, p) : 0)
              << count << " x " << k;
      ASSERT_EQ(std::count(panel.begin() + k * kLanes, panel.end(), A(12345)), 64) << count << " x " << k;
    }
  }
}

}  // namespace product_test
}  // namespace twofold::cpu
