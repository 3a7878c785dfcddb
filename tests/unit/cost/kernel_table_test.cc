#include "sim/cost/kernel_table.h"

#include "gtest/gtest.h"

namespace twofold {
namespace kernel_table_test {

void AddPoint(profile::Kernel& kernel, std::initializer_list<int64_t> dims, double flops, double bytes,
              double seconds) {
  profile::Point& p = *kernel.add_points();
  for (const int64_t d : dims) p.add_dims(d);
  p.set_flops(flops), p.set_bytes(bytes), p.set_seconds(seconds), p.set_low(seconds * 0.9), p.set_high(seconds * 1.2);
}

double ProductFlops(double m, double n, double k) { return 2 * m * n * k; }

ops::Cost ProductCost(int64_t m, int64_t n, int64_t k) {
  return {Flops(ProductFlops(static_cast<double>(m), static_cast<double>(n), static_cast<double>(k))),
          Bytes(4 * (m * k + k * n)), Bytes(4 * m * n)};
}

// A rate that grows with every dimension; the corner (256, 256, 256) is left out.
profile::Kernel Product() {
  profile::Kernel kernel;
  kernel.set_name("matmul_nn"), kernel.set_dtype("f32");
  for (const int64_t m : {64, 256}) {
    for (const int64_t n : {64, 256}) {
      for (const int64_t k : {64, 256}) {
        if (m == 256 && n == 256 && k == 256) continue;
        const double flops = ProductFlops(static_cast<double>(m), static_cast<double>(n), static_cast<double>(k));
        const double rate = 1e9 * (1 + static_cast<double>(m + n + k) / 1000);
        AddPoint(kernel, {m, n, k}, flops, 1, flops / rate);
      }
    }
  }
  return kernel;
}

TEST(KernelTable, IsExactAtMeasuredPoints) {
  const profile::Kernel kernel = Product();
  const KernelTable table(kernel);
  for (const profile::Point& p : kernel.points()) {
    const std::array<int64_t, 3> dims{p.dims(0), p.dims(1), p.dims(2)};
    const KernelTable::Result r = table.At(dims, ProductCost(dims[0], dims[1], dims[2]));
    EXPECT_NEAR(r.seconds, p.seconds(), 1e-12 * p.seconds());
    EXPECT_NEAR(r.low, p.low(), 1e-9 * p.seconds());
    EXPECT_NEAR(r.high, p.high(), 1e-9 * p.seconds());
    EXPECT_TRUE(r.inside);
  }
}

TEST(KernelTable, TimeGrowsWithEveryDimensionBetweenPoints) {
  const KernelTable table(Product());
  for (int axis = 0; axis < 3; ++axis) {
    double last = 0;
    for (int64_t size = 64; size <= 256; size += 8) {
      std::array<int64_t, 3> dims{100, 100, 100};
      dims[static_cast<size_t>(axis)] = size;
      const KernelTable::Result r = table.At(dims, ProductCost(dims[0], dims[1], dims[2]));
      EXPECT_GT(r.seconds, last) << "axis " << axis << ", size " << size;
      EXPECT_TRUE(r.inside);
      last = r.seconds;
    }
  }
}

TEST(KernelTable, CornerThatWasNotMeasuredHasTheRateOfTheNearestPointAndIsOutside) {
  const KernelTable table(Product());
  const KernelTable::Result r = table.At({256, 256, 256}, ProductCost(256, 256, 256));
  EXPECT_NEAR(r.seconds, ProductFlops(256, 256, 256) / (1e9 * 1.576), 1e-9);  // (64, 256, 256)'s rate
  EXPECT_FALSE(r.inside);
}

TEST(KernelTable, GrowsLinearlyBeyondTheLastPoint) {
  const KernelTable table(Product());
  const double once = table.At({256, 256, 64}, ProductCost(256, 256, 64)).seconds;
  const KernelTable::Result r = table.At({1024, 256, 64}, ProductCost(1024, 256, 64));
  EXPECT_NEAR(r.seconds, 4 * once, 1e-12);
  EXPECT_FALSE(r.inside);
}

profile::Kernel Stream() {  // 1 us a call, then 1 GB/s
  profile::Kernel kernel;
  kernel.set_name("add"), kernel.set_dtype("f32");
  AddPoint(kernel, {1, 64}, 64, 768, 1.768e-6);
  AddPoint(kernel, {1, 4096}, 4096, 49152, 50.152e-6);
  return kernel;
}

TEST(KernelTable, NoCallIsFasterThanTheFastestMeasured) {
  const KernelTable table(Stream());
  const KernelTable::Result r = table.At({1, 1, 0}, {Flops(1), Bytes(8), Bytes(4)});
  EXPECT_DOUBLE_EQ(r.seconds, 1.768e-6);
  EXPECT_FALSE(r.inside);
}

TEST(KernelTable, StreamsInProportionToTheBytesTouched) {
  const KernelTable table(Stream());
  const double narrow = table.At({1, 4096, 0}, {Flops(4096), Bytes(32768), Bytes(16384)}).seconds;
  const double wide = table.At({1, 4096, 0}, {Flops(4096), Bytes(65536), Bytes(32768)}).seconds;
  EXPECT_NEAR(narrow, 50.152e-6, 1e-15);
  EXPECT_NEAR(wide, 2 * narrow, 1e-15);
}

// What a GPU's kernels do: a time of their own and a rate, over a grid with steps of four, met everywhere between and
// beyond it.
TEST(KernelTable, TimesOfAGpuAreLinearInWork) {
  const auto seconds = [](int64_t rows, int64_t columns) {
    return 2e-6 + static_cast<double>(8 * rows * columns) / 3e12;
  };
  profile::Kernel kernel;
  kernel.set_name("add");
  for (int64_t rows = 64; rows <= 65536; rows *= 4) {
    for (int64_t columns = 64; columns <= 16384; columns *= 4) {
      profile::Point& p = *kernel.add_points();
      p.add_dims(rows), p.add_dims(columns), p.set_bytes(static_cast<double>(8 * rows * columns)),
          p.set_seconds(seconds(rows, columns));
    }
  }
  const KernelTable times(kernel, KernelTable::Between::kTimes), rates(kernel);
  double worst = 0;
  for (const int64_t rows : {64, 100, 1000, 5000, 12288, 65536}) {
    for (const int64_t columns : {64, 768, 1280, 1600, 16384}) {
      const ops::Cost cost{Flops(0), Bytes(4 * rows * columns), Bytes(4 * rows * columns)};
      const KernelTable::Result r = times.At({rows, columns, 0}, cost);
      EXPECT_TRUE(r.inside);
      EXPECT_NEAR(r.seconds, seconds(rows, columns), 1e-9 * r.seconds) << rows << " x " << columns;
      worst = std::max(worst, std::abs(rates.At({rows, columns, 0}, cost).seconds / seconds(rows, columns) - 1));
    }
  }
  EXPECT_GT(worst, 0.05) << "rates alone would do as well";
}

// The law says what sizes do; what the measured times are of it is interpolated.
TEST(KernelTable, ALawIsMetBetweenPointsAndScaledAsTheyAre) {
  const KernelTable::Law waves = [](const std::array<int64_t, 3>& dims) {
    return 1e-6 * static_cast<double>((dims[0] + 99) / 100 * dims[2]);
  };
  profile::Kernel kernel;
  kernel.set_name("matmul_nn");
  for (const int64_t m : {100, 10000}) {
    profile::Point& p = *kernel.add_points();
    p.add_dims(m), p.add_dims(100), p.add_dims(50), p.set_flops(static_cast<double>(m)),
        p.set_seconds(1.25 * waves({m, 100, 50}));
  }
  const KernelTable table(kernel, KernelTable::Between::kTimes, waves);
  for (const int64_t m : {100, 101, 150, 201, 9999, 20000}) {
    const KernelTable::Result r = table.At({m, 100, 50}, {Flops(1), Bytes(1), Bytes(1)});
    EXPECT_NEAR(r.seconds, 1.25 * waves({m, 100, 50}), 1e-12) << m;
    EXPECT_EQ(r.inside, m <= 10000);
  }
}

}  // namespace kernel_table_test
}  // namespace twofold
