#include "sim/cost/roofline.h"

#include "gtest/gtest.h"

namespace twofold {
namespace roofline_test {

cluster::Device Sheet() {
  cluster::Device d;
  d.set_name("sheet");
  d.set_memory_bytes_per_second(1e12), d.set_memory_efficiency(0.5);
  d.set_f32_flops_per_second(1e13), d.set_bf16_flops_per_second(1e14), d.set_matmul_efficiency(0.8);
  d.set_kernel_us(3);
  return d;
}

struct RooflineTest : testing::Test {
  Tensor New(Shape shape, DType dtype = DType::kF32) {
    return Allocate(allocator, std::move(shape), dtype, Category::kOther);
  }
  ops::Op Product(int64_t m, int64_t n, int64_t k, DType dtype = DType::kF32) {
    return ops::MatMul{.a = New({m, k}, dtype), .b = New({k, n}, dtype), .out = New({m, n}, dtype)};
  }
  MallocSource source;
  CachingAllocator allocator{source, 0};
  RooflineCostModel model{Sheet()};
};

TEST_F(RooflineTest, LargeProductIsBoundByItsFlops) {
  EXPECT_NEAR(model.Time(Product(512, 512, 512)).seconds.value(), 3e-6 + 2.0 * 512 * 512 * 512 / (0.8 * 1e13), 1e-15);
  EXPECT_NEAR(model.Time(Product(512, 512, 512, DType::kBF16)).seconds.value(),
              3e-6 + std::max(2.0 * 512 * 512 * 512 / (0.8 * 1e14), 2.0 * 3 * 512 * 512 / (0.5 * 1e12)), 1e-15);
}

TEST_F(RooflineTest, ThinProductIsBoundByItsBytes) {
  EXPECT_NEAR(model.Time(Product(1, 512, 512)).seconds.value(), 3e-6 + 4.0 * (512 + 512 * 512 + 512) / (0.5 * 1e12),
              1e-15);
}

TEST_F(RooflineTest, ElementsAreBoundByTheirBytes) {
  const Tensor x = New({1 << 16});
  EXPECT_NEAR(model.Time(ops::Add{x, x, x}).seconds.value(), 3e-6 + 12.0 * (1 << 16) / (0.5 * 1e12), 1e-15);
}

TEST_F(RooflineTest, TypeWithoutAFigureTakesTheOneOfF32) {
  const double f32 = model.Time(Product(512, 512, 512)).seconds.value();
  EXPECT_NEAR(model.Time(Product(512, 512, 512, DType::kF64)).seconds.value(), f32, 1e-15);
}

TEST_F(RooflineTest, IntervalIsStatedAndNothingCountsAsExtrapolated) {
  const Estimate e = model.Time(Product(64, 64, 64));
  EXPECT_NEAR(e.low.value(), 0.7 * e.seconds.value(), 1e-15);
  EXPECT_NEAR(e.high.value(), 1.3 * e.seconds.value(), 1e-15);
  EXPECT_FALSE(e.extrapolated);
  EXPECT_EQ(e.source, Source::kDataSheet);
  EXPECT_NE(model.Describe().find("data sheet"), std::string::npos);
}

}  // namespace roofline_test
}  // namespace twofold
