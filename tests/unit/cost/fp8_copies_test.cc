// Codes in FP8 along a product's sum: who makes them on which device, and how long it takes.
#include "sim/cost/fp8_copies.h"

#include <utility>

#include "core/memory/allocator.h"
#include "core/memory/source.h"
#include "gtest/gtest.h"
#include "sim/cost/gpu_cost_model.h"

namespace twofold {
namespace fp8_copies_test {

using ops::Fp8Blocks, ops::Fp8Format;

constexpr double kRate = 1e9 * 0.5;  // bytes per second
constexpr double kKernel = 3e-6, kLaunch = 7e-6;
constexpr int64_t kM = 128, kN = 256, kK = 512;

struct Fp8CopiesTest : testing::Test {
  Fp8CopiesTest() {
    device.set_kernel_us(kKernel * 1e6), device.set_launch_us(kLaunch * 1e6), device.set_compute_capability(9.0);
    device.set_memory_bytes_per_second(1e9), device.set_memory_efficiency(0.5), device.set_f32_flops_per_second(1e13);
    cluster::KernelLaws& laws = *device.mutable_laws();
    laws.set_multiprocessors(10), laws.set_generation("ampere");
    for (const char* dtype : {"bf16", "fp8", "fp8_block"}) {
      cluster::ProductLaw& law = *laws.add_products();
      law.set_dtype(dtype), law.set_tflops(100), law.set_load_gbytes_per_second(1e12), law.set_selectivity(1000);
      law.set_memory_tbytes_per_second(1e12), law.set_burst_tflops(1e12), law.set_lasting_share(1);
      law.set_settling_us(1), law.set_sharpness(8), law.set_partial_tbytes_per_second(1e-9), law.set_call_us(2);
    }
  }
  Tensor Blank(Shape shape, DType dtype) { return Allocate(allocator, std::move(shape), dtype, Category::kOther); }
  // The layer's three products: y = x W^T, dx = dy W, dW = dy^T x.
  ops::MatMul Product(bool ta, bool tb, bool blocks) {
    const Shape a = ta ? Shape{kK, kM} : Shape{kM, kK}, b = tb ? Shape{kN, kK} : Shape{kK, kN};
    const auto scaling = [&](const Shape& codes, Fp8Blocks of_blocks) {
      const Fp8Blocks which = blocks ? of_blocks : Fp8Blocks::kTensor;
      return ops::Fp8Scaling{Blank(ops::Fp8Scales(which, codes[0], codes[1]), DType::kF32), Fp8Format::kE4M3, which};
    };
    return {.a = Blank(a, DType::kU8),
            .b = Blank(b, DType::kU8),
            .out = Blank({kM, kN}, DType::kBF16),
            .transpose_a = ta,
            .transpose_b = tb,
            .a_scaling = scaling(a, ta ? Fp8Blocks::kColumn : Fp8Blocks::kRow),
            .b_scaling = scaling(b, ta ? Fp8Blocks::kColumn : Fp8Blocks::kSquare)};
  }
  void Expect(const ops::MatMul& o, double bytes, int kernels) {
    const Fp8CopyTime time = CopiesBefore(o, device, Fp8Layouts::kCopied);
    EXPECT_EQ(time.kernels, kernels);
    EXPECT_NEAR(time.seconds, 2 * bytes / kRate + kernels * kKernel, 1e-15);
  }
  MallocSource source;
  CachingAllocator allocator{source, 0};
  cluster::Device device;
};

TEST_F(Fp8CopiesTest, OperandsAcrossTheSumAreReadAndWrittenOnce) {
  Expect(Product(false, true, false), 0, 0);
  Expect(Product(false, false, false), kN * kK, 1);
  Expect(Product(true, false, false), (kM + kN) * kK, 1);
}

// Scales: 128 x 4 of x or dy, 2 x 4 of W in a part of 512 bytes.
TEST_F(Fp8CopiesTest, ScalesOfBlocksAreArrangedByAnotherKernel) {
  Expect(Product(false, true, true), 4 * kM * 4 + 512, 1);
  Expect(Product(false, false, true), kN * kK + 4 * kM * 4 + 512, 2);
  Expect(Product(true, false, true), (kM + kN) * kK, 1);
}

TEST_F(Fp8CopiesTest, OnlyWhereTheLibraryHasTheProductAndWantsItSo) {
  for (const double capability : {8.9, 12.0, 12.1}) {
    device.set_compute_capability(capability);
    Expect(Product(false, false, false), kN * kK, 1);
    Expect(Product(false, false, true), 0, 0);  // by our own kernels
  }
  for (const double capability : {8.0, 10.0, 10.3, 11.0}) {
    device.set_compute_capability(capability);
    for (const bool blocks : {false, true}) Expect(Product(false, false, blocks), 0, 0);
  }
  device.clear_compute_capability();
  Expect(Product(false, false, false), 0, 0);
  device.set_compute_capability(9.0);
  ops::MatMul odd = Product(false, false, false);
  odd.b_scaling.format = odd.a_scaling.format = Fp8Format::kE5M2;
  Expect(odd, 0, 0);
  const ops::MatMul wide{.a = Blank({8, 8}, DType::kBF16), .b = Blank({8, 8}, DType::kBF16)};
  Expect(wide, 0, 0);
}

TEST_F(Fp8CopiesTest, AreKernelsOfTheirOwnBeforeTheProduct) {
  const ops::MatMul o = Product(true, false, false);
  const Estimate with = GpuCostModel(device).Time(o), without = GpuCostModel(device, Fp8Layouts::kAsTheyLie).Time(o);
  EXPECT_NEAR((with.seconds - without.seconds).value(), 2.0 * (kM + kN) * kK / kRate + kKernel, 1e-12);
  EXPECT_FALSE(without.launch.has_value());
  EXPECT_NEAR(with.launch.value_or(Seconds(0)).value(), 2 * kLaunch, 1e-12);
  EXPECT_EQ(GpuCostModel(device, Fp8Layouts::kRounded).Time(o).seconds, without.seconds);
}

// One byte an element more, where two layouts are written at once.
TEST_F(Fp8CopiesTest, OrRoundingWritesBothLayouts) {
  const auto more = [&](Fp8Blocks blocks, ops::QuantiseFp8::Part part = ops::QuantiseFp8::kBoth) {
    const ops::QuantiseFp8 o{
        .in = Blank({kM, kK}, DType::kBF16),
        .codes = Blank({kM, kK}, DType::kU8),
        .scaling = {.scales = Blank(ops::Fp8Scales(blocks, kM, kK), DType::kF32), .blocks = blocks},
        .part = part,
        .largest = Blank({1, 1}, DType::kI32)};
    EXPECT_EQ(MoreToRound(o, device, Fp8Layouts::kCopied), 0);
    return GpuCostModel(device, Fp8Layouts::kRounded).Time(o).seconds.value() -
           GpuCostModel(device).Time(o).seconds.value();
  };
  constexpr double kByte = kM * kK / kRate;
  EXPECT_NEAR(more(Fp8Blocks::kTensor), kByte, 1e-12);
  EXPECT_NEAR(more(Fp8Blocks::kTensor, ops::QuantiseFp8::kCodes), kByte, 1e-12);
  EXPECT_NEAR(more(Fp8Blocks::kTensor, ops::QuantiseFp8::kLargest), 0, 1e-15);
  EXPECT_NEAR(more(Fp8Blocks::kSquare), kByte, 1e-12);
  for (const Fp8Blocks once_for_each : {Fp8Blocks::kRow, Fp8Blocks::kColumn})
    EXPECT_NEAR(more(once_for_each), 0, 1e-15);
  device.set_compute_capability(10.0);
  EXPECT_NEAR(more(Fp8Blocks::kTensor), 0, 1e-15);
}

}  // namespace fp8_copies_test
}  // namespace twofold
