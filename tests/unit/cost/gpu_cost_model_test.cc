#include "sim/cost/gpu_cost_model.h"

#include "gtest/gtest.h"

namespace twofold {
namespace gpu_cost_model_test {

constexpr double kPeak = 0.8 * 1e14, kMemory = 0.5 * 1e14, kKernel = 3e-6;

// Ten multiprocessors and one tile of 100 x 100.
cluster::Device Gpu() {
  cluster::Device d;
  d.set_name("gpu");
  d.set_memory_bytes_per_second(1e14), d.set_memory_efficiency(0.5);
  d.set_f32_flops_per_second(1e13), d.set_bf16_flops_per_second(1e14), d.set_matmul_efficiency(0.8);
  d.set_kernel_us(3);
  cluster::Kernels& k = *d.mutable_kernels();
  k.set_multiprocessors(10);
  cluster::Kernels::Tile& tile = *k.add_tiles();
  tile.set_rows(100), tile.set_columns(100);
  return d;
}

struct GpuCostModelTest : testing::Test {
  Tensor New(Shape shape, DType dtype = DType::kF16) {
    return Allocate(allocator, std::move(shape), dtype, Category::kOther);
  }
  ops::Op Product(int64_t m, int64_t n, int64_t k) {
    return ops::MatMul{.a = New({m, k}), .b = New({k, n}), .out = New({m, n})};
  }
  static double On(const cluster::Device& device, const ops::Op& op) {
    return GpuCostModel(device).Time(op).seconds.value();
  }
  // Of so many waves of tiles with this depth, on tiles of 100 x 100.
  static double Waves(double waves, double depth) { return kKernel + waves * 2 * 100 * 100 * depth / (kPeak / 10); }

  MallocSource source;
  CachingAllocator allocator{source, 0};
};

TEST_F(GpuCostModelTest, AWaveIsFullOrNot) {
  EXPECT_NEAR(On(Gpu(), Product(100, 100, 4000)), Waves(1, 4000), 1e-12);
  EXPECT_NEAR(On(Gpu(), Product(1000, 100, 4000)), Waves(1, 4000), 1e-12);
  EXPECT_NEAR(On(Gpu(), Product(1001, 100, 4000)), Waves(2, 4000), 1e-12);
  EXPECT_NEAR(On(Gpu(), Product(2000, 100, 4000)), Waves(2, 4000), 1e-12);
}

TEST_F(GpuCostModelTest, LargeProductsReachTheirShareOfPeak) {
  EXPECT_NEAR(On(Gpu(), Product(4000, 4000, 4000)), kKernel + 2.0 * 4000 * 4000 * 4000 / kPeak, 1e-9);
}

// 21 tiles are three waves, the last of which draws little power; 30 are three that draw all of it.
TEST_F(GpuCostModelTest, ProductsAreNoFasterThanPowerAllows) {
  cluster::Device d = Gpu();
  d.mutable_kernels()->set_sustained_efficiency(0.7);
  const double sustained = 2.0 * 100 * 4000 / (0.7 * 1e14);  // seconds a row of 100 columns
  EXPECT_NEAR(On(d, Product(2100, 100, 4000)), Waves(3, 4000), 1e-12);
  EXPECT_NEAR(On(d, Product(3000, 100, 4000)), kKernel + 3000 * sustained, 1e-12);
}

TEST_F(GpuCostModelTest, RowsThatAreNotAlignedAreLoadedPieceByPiece) {
  cluster::Device d = Gpu();
  for (const auto& [bytes, efficiency] : {std::pair(2, 0.25), std::pair(8, 0.5)}) {
    cluster::Kernels::Alignment& alignment = *d.mutable_kernels()->add_alignments();
    alignment.set_bytes(bytes), alignment.set_efficiency(efficiency);
  }
  EXPECT_NEAR(On(d, Product(1000, 96, 4000)), Waves(1, 4000), 1e-12);
  EXPECT_NEAR(On(d, Product(1001, 96, 4000)), Waves(2, 4000), 1e-12) << "rows are as long as before";
  EXPECT_NEAR(On(d, Product(1000, 95, 4000)), Waves(4, 4000), 1e-12) << "of b";
  EXPECT_NEAR(On(d, Product(1000, 96, 4001)), Waves(4, 4001), 1e-12) << "of a";
  EXPECT_NEAR(On(d, Product(1000, 92, 4000)), Waves(2, 4000), 1e-12);
  EXPECT_NEAR(On(d, Product(1000, 94, 4000)), Waves(1, 4000), 1e-12) << "the file says nothing of 4 bytes";
  const Tensor x = New({1000, 4000}), w = New({95, 4000}), y = New({1000, 95});
  EXPECT_NEAR(On(d, ops::MatMul{.a = x, .b = w, .out = y, .transpose_b = true}), Waves(1, 4000), 1e-12)
      << "a result's rows do not count";
}

TEST_F(GpuCostModelTest, DepthIsPaidByEveryTile) {
  cluster::Device d = Gpu();
  d.mutable_kernels()->set_tile_depth(50);
  EXPECT_NEAR(On(d, Product(2000, 100, 4000)), Waves(2, 4050), 1e-12);
}

TEST_F(GpuCostModelTest, TheBestTileIsTaken) {
  cluster::Device d = Gpu();
  cluster::Kernels::Tile& small = *d.mutable_kernels()->add_tiles();
  small.set_rows(50), small.set_columns(50), small.set_efficiency(0.5);
  // Four small tiles at half the rate fill what one large one leaves idle; where all are busy, the large one wins.
  EXPECT_NEAR(On(d, Product(100, 100, 4000)), kKernel + 2 * 50 * 50 * 4000.0 / (0.5 * kPeak / 10), 1e-12);
  EXPECT_NEAR(On(d, Product(1000, 100, 4000)), Waves(1, 4000), 1e-12);
}

TEST_F(GpuCostModelTest, SplitsTradeDepthForTrafficOfThePartsAndOnlyOfOneMatrix) {
  cluster::Device d = Gpu();
  d.mutable_kernels()->set_most_splits(4);
  EXPECT_NEAR(On(d, Product(100, 100, 40000)), Waves(1, 10000) + 100 * 100 * (4 * 4 + 2) / kMemory, 1e-12);
  EXPECT_NEAR(On(d, Product(1000, 100, 40000)), Waves(1, 40000), 1e-12);
  const Tensor a = New({2, 100, 40000}), b = New({2, 40000, 100}), out = New({2, 100, 100});
  const auto matrices = [](const Tensor& t) {
    return ops::Matrices{.tensor = t, .stride = t.dim(2), .batch = t.dim(1) * t.dim(2), .head = t.dim(1) * t.dim(2)};
  };
  EXPECT_NEAR(On(d, ops::BatchedMatMul{.a = matrices(a),
                                       .b = matrices(b),
                                       .out = matrices(out),
                                       .batches = 2,
                                       .heads = 1,
                                       .m = 100,
                                       .n = 100,
                                       .k = 40000}),
              Waves(1, 40000), 1e-12);
}

TEST_F(GpuCostModelTest, ThinProductsAreBoundByTheirBytes) {
  EXPECT_NEAR(On(Gpu(), Product(1, 10000, 1000)), Waves(10, 1000), 1e-12);
  cluster::Device d = Gpu();
  d.mutable_kernels()->mutable_tiles(0)->set_rows(1);
  EXPECT_NEAR(On(d, Product(1, 10000, 1000)), kKernel + 2.0 * (1000 + 1000 * 10000 + 10000) / kMemory, 1e-12);
}

TEST_F(GpuCostModelTest, MoreOfAnyDimensionIsNeverFaster) {
  cluster::Device d = Gpu();
  cluster::Kernels& k = *d.mutable_kernels();
  k.set_most_splits(8), k.set_tile_depth(64);
  cluster::Kernels::Tile& small = *k.add_tiles();
  small.set_rows(32), small.set_columns(64), small.set_efficiency(0.7);
  GpuCostModel model(d);
  double before[3] = {0, 0, 0};
  for (int64_t size = 8; size < 3000; size += 72) {
    const ops::Op grown[] = {Product(size, 300, 500), Product(300, size, 500), Product(300, 300, size)};
    for (int i = 0; i < 3; ++i) {
      const double seconds = model.Time(grown[i]).seconds.value();
      EXPECT_GE(seconds, before[i]) << "dimension " << i << " at " << size;
      before[i] = seconds;
    }
  }
}

TEST_F(GpuCostModelTest, KernelsTakeTheirBytesTimeSoManyTimesAsTheFileSays) {
  cluster::Device d = Gpu();
  const Tensor x = New({1 << 20});
  EXPECT_NEAR(On(d, ops::Add{x, x, x}), kKernel + 6.0 * (1 << 20) / kMemory, 1e-15);
  cluster::Kernels::Kernel& add = *d.mutable_kernels()->add_kernels();
  add.set_name("add"), add.set_factor(0.5);
  EXPECT_NEAR(On(d, ops::Add{x, x, x}), kKernel + 3.0 * (1 << 20) / kMemory, 1e-15);
  EXPECT_NEAR(On(d, ops::AddTo{x, x}), kKernel + 6.0 * (1 << 20) / kMemory, 1e-15);
  add.set_factor(0);  // a neighbour does it
  const Estimate fused = GpuCostModel(d).Time(ops::Add{x, x, x});
  EXPECT_EQ(fused.seconds.value(), 0);
  EXPECT_EQ(fused.high.value(), 0);
  EXPECT_EQ(fused.launch, Seconds(0));
}

TEST_F(GpuCostModelTest, AccumulationIsAnAdditionOfItsOwnWhereTheFileSaysSo) {
  cluster::Device d = Gpu();
  const Tensor a = New({1000, 4000}), b = New({4000, 100}), out = New({1000, 100});
  const ops::MatMul first{.a = a, .b = b, .out = out}, more{.a = a, .b = b, .out = out, .accumulate = true};
  EXPECT_NEAR(On(d, more), Waves(1, 4000), 1e-12);
  d.mutable_kernels()->set_separate_accumulation(true);
  EXPECT_NEAR(On(d, first), Waves(1, 4000), 1e-12);
  EXPECT_NEAR(On(d, more), Waves(1, 4000) + kKernel + 3 * 2.0 * 1000 * 100 / kMemory, 1e-12);
}

// Seconds and launches of a fused operation and of the two that it is, before and after the file names the one that is
// joined.
TEST_F(GpuCostModelTest, FusedOperationsAreTwoKernelsWhereTheFileNamesTheJoinedOne) {
  const Tensor x = New({1000, 100}), gamma = New({100}), stat = New({1000}, DType::kF32), w = New({100, 400}),
               h = New({1000, 400});
  const ops::LayerNormForward layer{.x = x, .gamma = gamma, .beta = gamma, .y = x, .mean = stat, .rstd = stat};
  const ops::RmsNormForward rms{.x = x, .gamma = gamma, .y = x, .rstd = stat};
  const ops::LayerNormBackward layer_back{.dy = x, .x = x, .gamma = gamma, .mean = stat, .rstd = stat, .dx = x};
  const ops::RmsNormBackward rms_back{.dy = x, .x = x, .gamma = gamma, .rstd = stat, .dx = x};
  const ops::MatMul product{.a = x, .b = w, .out = h};
  const ops::Add sum{x, x, x};
  const ops::AddTo sum_to{x, x};
  const ops::ActivationForward gelu{ops::ActivationForward::kGelu, h, h};
  const ops::ActivationBackward gelu_back{ops::ActivationForward::kGelu, h, h, h};
  auto layer_sum = layer;
  layer_sum.branch = layer_sum.sum = x;
  auto rms_sum = rms;
  rms_sum.branch = rms_sum.sum = x;
  auto layer_past = layer_back;
  layer_past.past = x;
  auto rms_past = rms_back;
  rms_past.past = x;
  auto with_gelu = product, with_slope = product;
  with_gelu.epilogue = ops::MatMul::kGelu, with_slope.epilogue = ops::MatMul::kGeluSlope;
  with_gelu.aux = with_slope.aux = h;
  struct Case {
    ops::Op fused, main, joined;
    double passes_saved;
  };  // passes over x, or over h
  const double pass = 2.0 * 1000 * 100 / kMemory;
  for (const Case& c : {Case{layer_sum, layer, sum, 1},
                        {rms_sum, rms, sum, 1},
                        {layer_past, layer_back, sum_to, 2},
                        {rms_past, rms_back, sum_to, 2},
                        {with_gelu, product, gelu, 0},
                        {with_slope, product, gelu_back, 0}}) {
    cluster::Device d = Gpu();
    SCOPED_TRACE(ops::Key(c.joined).name);
    if (c.passes_saved > 0)
      EXPECT_NEAR(On(d, c.fused), On(d, c.main) + On(d, c.joined) - kKernel - c.passes_saved * pass, 1e-15);
    else
      EXPECT_NEAR(On(d, c.fused), On(d, c.main), 1e-15) << "the product takes longer than its bytes";
    d.set_launch_us(5);
    cluster::Kernels::Kernel& named = *d.mutable_kernels()->add_kernels();
    named.set_name(std::string(ops::Key(c.joined).name)), named.set_factor(0.5), named.set_launch_us(40);
    EXPECT_NEAR(On(d, c.fused), On(d, c.main) + On(d, c.joined), 1e-15);
    EXPECT_NEAR(GpuCostModel(d).Time(c.fused).launch.value_or(Seconds(0)).value(), 45e-6, 1e-15);
  }
}

TEST_F(GpuCostModelTest, LaunchesTakeTheHostAsLongAsTheFileSays) {
  cluster::Device d = Gpu();
  const Tensor x = New({1 << 20});
  EXPECT_FALSE(GpuCostModel(d).Time(ops::Add{x, x, x}).launch.has_value());
  cluster::Kernels::Kernel& add = *d.mutable_kernels()->add_kernels();
  add.set_name("add"), add.set_launch_us(40);
  EXPECT_NEAR(GpuCostModel(d).Time(ops::Add{x, x, x}).launch.value_or(Seconds(0)).value(), 40e-6, 1e-15);
  EXPECT_FALSE(GpuCostModel(d).Time(ops::AddTo{x, x}).launch.has_value());
}

TEST_F(GpuCostModelTest, SaysItsIntervalAndWhatItIs) {
  cluster::Device d = Gpu();
  d.mutable_kernels()->set_error(0.1);
  const Estimate e = GpuCostModel(d).Time(Product(100, 100, 100));
  EXPECT_NEAR(e.low.value(), 0.9 * e.seconds.value(), 1e-15);
  EXPECT_NEAR(e.high.value(), 1.1 * e.seconds.value(), 1e-15);
  EXPECT_NE(GpuCostModel(d).Describe().find("10 multiprocessors"), std::string::npos);
}

TEST_F(GpuCostModelTest, RefusesWhatItCannotUse) {
  EXPECT_TRUE(CheckKernels(Gpu()).ok());
  EXPECT_TRUE(CheckKernels(cluster::Device()).ok());
  const auto message = [](auto change) {
    cluster::Device d = Gpu();
    change(*d.mutable_kernels());
    return std::string(CheckKernels(d).message());
  };
  EXPECT_EQ(message([](auto& k) { k.clear_multiprocessors(); }), "multiprocessors: 0: must be 1 or more");
  EXPECT_EQ(message([](auto& k) { k.clear_tiles(); }), "tiles: missing; matrix products need at least one");
  EXPECT_NE(message([](auto& k) { k.mutable_tiles(0)->set_rows(0); }).find("tiles: 0 x 100"), std::string::npos);
  EXPECT_EQ(message([](auto& k) { k.set_tile_depth(-1); }), "tile_depth: -1: must not be negative");
  EXPECT_EQ(message([](auto& k) { k.set_most_splits(0); }), "most_splits: 0: must be 1 or more");
  EXPECT_EQ(message([](auto& k) { k.add_kernels()->set_factor(-1), k.mutable_kernels(0)->set_name("add"); }),
            "kernels.factor: -1 for add: must not be negative");
  EXPECT_EQ(message([](auto& k) { k.add_kernels()->set_launch_us(-1), k.mutable_kernels(0)->set_name("add"); }),
            "kernels.launch_us: -1 for add: must not be negative");
  EXPECT_EQ(message([](auto& k) { k.add_kernels()->set_name("matmul_n"); }),
            "kernels.name: \"matmul_n\": unknown kernel; use a name from a report, such as matmul_nt");
  EXPECT_EQ(message([](auto& k) { k.add_kernels()->set_name("add"), k.add_kernels()->set_name("add"); }),
            "kernels.name: \"add\": appears twice");
  EXPECT_EQ(message([](auto& k) { k.set_error(1); }), "error: 1: must be in [0, 1)");
  EXPECT_EQ(message([](auto& k) { k.set_sustained_efficiency(0); }), "sustained_efficiency: 0: must be greater than 0");
  EXPECT_EQ(message([](auto& k) { k.add_alignments()->set_bytes(16); }),
            "alignments.bytes: 16: must be 1, 2, 4 or 8; rows aligned to 16 bytes count as fully aligned");
  EXPECT_EQ(message([](auto& k) { k.add_alignments()->set_bytes(2), k.add_alignments()->set_bytes(2); }),
            "alignments.bytes: 2: appears twice");
  EXPECT_EQ(message([](auto& k) { k.add_alignments()->set_bytes(4), k.mutable_alignments(0)->set_efficiency(0); }),
            "alignments.efficiency: 0 for 4 bytes: must be greater than 0");
}

// Four of ten multiprocessors are taken, and a fifth of the memory's bandwidth.
TEST_F(GpuCostModelTest, OperationsTakeLongerBesideCommunication) {
  GpuCostModel model(Gpu());
  const BesideIt takes{.multiprocessors = 4, .bytes_per_second = kMemory / 5};
  EXPECT_DOUBLE_EQ(model.Slowdown(Product(4000, 4000, 4000), takes), 10.0 / 6);
  EXPECT_DOUBLE_EQ(model.Slowdown(ops::Add{New({1000}), New({1000}), New({1000})}, takes), 1 / 0.8);
  EXPECT_DOUBLE_EQ(model.Slowdown(Product(4000, 4000, 4000), {.multiprocessors = 100}), 10.0 / 3)
      << "at least a quarter of the device is left: three multiprocessors";
  EXPECT_DOUBLE_EQ(model.Slowdown(Product(4000, 4000, 4000), {}), 1);
}

}  // namespace gpu_cost_model_test
}  // namespace twofold
