// What a framework's file says of operations, on a device whose own times are known.
#include "sim/cost/framework_cost_model.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/roofline.h"

namespace twofold {
namespace framework_cost_model_test {

constexpr double kMemory = 1e12, kKernel = 2e-6, kLaunch = 5e-6;

// Streaming kernels take bytes / kMemory + kKernel.
cluster::Device Gpu() {
  cluster::Device d;
  d.set_name("gpu");
  d.set_memory_bytes_per_second(kMemory), d.set_memory_efficiency(1);
  d.set_f32_flops_per_second(1e15), d.set_bf16_flops_per_second(1e15);
  d.set_kernel_us(kKernel * 1e6), d.set_launch_us(kLaunch * 1e6);
  return d;
}

struct FrameworkCostModelTest : testing::Test {
  Tensor New(Shape shape, DType dtype = DType::kF16) {
    return Allocate(allocator, std::move(shape), dtype, Category::kOther);
  }
  static Estimate On(const framework::Time& time, const ops::Op& op) {
    return FrameworkCostModel(std::make_unique<RooflineCostModel>(Gpu()), time, Gpu()).Time(op);
  }
  static double Own(const ops::Op& op) { return RooflineCostModel(Gpu()).Time(op).seconds.value(); }

  MallocSource source;
  CachingAllocator allocator{source, 0};
};

TEST_F(FrameworkCostModelTest, WithoutFiguresTimesAreTheDevices) {
  const ops::Op add = ops::Add{.a = New({1000}), .b = New({1000}), .out = New({1000})};
  const Estimate e = On({}, add);
  EXPECT_EQ(e.seconds.value(), Own(add));
  EXPECT_FALSE(e.launch.has_value());
}

// A device whose parts take half of what products take alone.
struct Halves : RooflineCostModel {
  Halves() : RooflineCostModel(Gpu()) {}
  Estimate TimeOfPart(const ops::MatMul& product) override {
    Estimate e = Time(product);
    e.seconds = e.seconds / 2;
    return e;
  }
};

TEST_F(FrameworkCostModelTest, PartsOfTpOverlapRunSideBySideOnSeveralStreams) {
  framework::Time time;
  time.set_launch_us(7), time.mutable_tp_overlap()->set_launch_us(3);
  time.add_kernels()->set_name("matmul_nt"), time.mutable_kernels(0)->set_launch_us(110);
  const auto on = [&](const ops::Op& op) {
    return FrameworkCostModel(std::make_unique<Halves>(), time, Gpu()).Time(op);
  };
  ops::MatMul part{.a = New({512, 512}), .b = New({512, 512}), .out = New({512, 512}), .transpose_b = true};
  EXPECT_EQ(on(part).seconds.value(), Own(part));
  EXPECT_NEAR(on(part).launch->value(), 110e-6, 1e-12);
  part.parts = 4;
  EXPECT_EQ(on(part).seconds.value(), Own(part)) << "one stream";
  EXPECT_NEAR(on(part).launch->value(), 3e-6, 1e-12);
  time.mutable_tp_overlap()->set_streams(3);
  EXPECT_EQ(on(part).seconds.value(), Own(part) / 2);
  part.parts = 1;
  EXPECT_EQ(on(part).seconds.value(), Own(part));
}

TEST_F(FrameworkCostModelTest, FactorsScaleAllButTheKernelsMinimum) {
  framework::Time time;
  time.set_launch_us(7);
  framework::Kernel& kernel = *time.add_kernels();
  kernel.set_name("add"), kernel.set_factor(3), kernel.set_launch_us(11);
  const ops::Op add = ops::Add{.a = New({1000000}), .b = New({1000000}), .out = New({1000000})};
  EXPECT_NEAR(On(time, add).seconds.value(), 3 * 6e6 / kMemory + kKernel, 1e-12);
  EXPECT_NEAR(On(time, add).launch->value(), 11e-6, 1e-12);
  kernel.set_factor(0);  // a neighbour does it
  EXPECT_EQ(On(time, add).seconds.value(), 0);
  EXPECT_EQ(On(time, add).high.value(), 0);
  EXPECT_EQ(On(time, add).launch, Seconds(0));
  const ops::Op fill = ops::Fill{.out = New({1000})};
  EXPECT_NEAR(On(time, fill).launch->value(), 7e-6, 1e-12);
  EXPECT_EQ(On(time, fill).seconds.value(), Own(fill));
}

// y = norm(x + branch): a sum of 6 bytes an element, and a norm that reads the sum and writes y.
TEST_F(FrameworkCostModelTest, SeparatePartsAreKernelsOfTheirOwn) {
  const Tensor x = New({64, 512}), gain = New({512});
  const ops::Op fused = ops::LayerNormForward{.x = x,
                                              .gamma = gain,
                                              .beta = gain,
                                              .y = New({64, 512}),
                                              .mean = New({64}, DType::kF32),
                                              .rstd = New({64}, DType::kF32),
                                              .branch = New({64, 512}),
                                              .sum = New({64, 512})};
  framework::Time time;
  EXPECT_EQ(On(time, fused).seconds.value(), Own(fused));
  time.add_separate("add");
  ops::LayerNormForward alone = std::get<ops::LayerNormForward>(fused.any());
  alone.branch = alone.sum = Tensor();
  const ops::Op sum = ops::Add{.a = x, .b = x, .out = x};
  EXPECT_NEAR(On(time, fused).seconds.value(), Own(alone) + Own(sum), 1e-15);
  EXPECT_NEAR(On(time, fused).launch->value(), 2 * kLaunch, 1e-12);
  time.set_launch_us(1);
  EXPECT_NEAR(On(time, fused).launch->value(), 2e-6, 1e-12);
}

TEST_F(FrameworkCostModelTest, SeparateAccumulationIsAProductAndASum) {
  ops::MatMul product{.a = New({256, 128}), .b = New({256, 64}), .out = New({128, 64}), .transpose_a = true};
  const double alone = Own(product);
  product.accumulate = true;
  framework::Time time;
  EXPECT_EQ(On(time, product).seconds.value(), Own(product));
  time.set_separate_accumulation(true);
  EXPECT_NEAR(On(time, product).seconds.value(), alone + 3 * 2 * 128 * 64 / kMemory + kKernel, 1e-15);
}

// Beyond the least time of a kernel; on other devices and of other families nothing changes.
TEST_F(FrameworkCostModelTest, FamiliesAreMultiplied) {
  const ops::Op product = ops::MatMul{.a = New({256, 128}), .b = New({128, 64}), .out = New({256, 64})};
  const Tensor x = New({64, 512});
  const ops::Op sum = ops::Add{.a = x, .b = x, .out = x};
  framework::Time time;
  framework::Family& family = *time.add_families();
  family.set_kind(framework::Family::ELEMENT_WISE), family.set_factor(3);
  EXPECT_EQ(On(time, product).seconds.value(), Own(product));
  EXPECT_NEAR(On(time, sum).seconds.value(), kKernel + 3 * (Own(sum) - kKernel), 1e-15);
  framework::Kernel& kernel = *time.add_kernels();
  kernel.set_name("add"), kernel.set_factor(2);
  EXPECT_NEAR(On(time, sum).seconds.value(), kKernel + 6 * (Own(sum) - kKernel), 1e-15);
  kernel.set_factor(0);
  EXPECT_EQ(On(time, sum).seconds.value(), 0);
  family.set_device("another");
  kernel.set_factor(1);
  EXPECT_EQ(On(time, sum).seconds.value(), Own(sum));
}

TEST_F(FrameworkCostModelTest, UnknownKernelsAreRefused) {
  framework::Time time;
  time.add_kernels()->set_name("adam_step");
  EXPECT_TRUE(CheckFrameworkKernels(time).ok());
  time.add_kernels()->set_name("adam_stepp");
  EXPECT_THAT(std::string(CheckFrameworkKernels(time).message()),
              testing::HasSubstr("time.kernels.name: \"adam_stepp\": unknown kernel"));
}

}  // namespace framework_cost_model_test
}  // namespace twofold
