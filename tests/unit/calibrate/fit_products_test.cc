// Products of a made-up GPU, whose library has tiles that the fit's candidates are not and rules of its own, measured
// with noise as calibration measures them: those of models, which it has not seen, are predicted from them.
#include "experiments/program/calibrate/fit_products.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/philox.h"
#include "core/device/kernel_names.h"
#include "experiments/program/calibrate/gpu_cases.h"
#include "experiments/program/calibrate/profile_from.h"
#include "gtest/gtest.h"
#include "sim/cost/measured_products.h"
#include "sim/cost/profile_cost_model.h"
#include "sim/cost/read_profile.h"
#include "sim/cost/tiled_products.h"

namespace twofold::calibrate {
namespace fit_products_test {

constexpr int64_t kMultiprocessors = 132;
constexpr double kMostFlops = 9e12, kNoise = 0.01;
constexpr int64_t kMostElements = int64_t{1} << 31;

// Times of a GPU: every tile begins at a cost of its own, operands' time and arithmetic pass into each other, power
// bounds.
class MadeUpGpu {
 public:
  double Seconds(const GpuProduct& p) const {
    struct Kind {
      int64_t rows, columns;
      double efficiency, depth;
    };
    constexpr Kind kKinds[] = {{256, 128, 1.0, 80}, {128, 256, 1.0, 80}, {192, 160, 0.97, 70}, {128, 128, 0.93, 60},
                               {128, 64, 0.8, 50},  {64, 128, 0.8, 50},  {64, 64, 0.62, 40}};
    const ProductShape shape{1, p.m, p.n, p.k};
    double best = 1e9;
    for (const Kind& kind : kKinds) {
      const TiledProducts tiles{.tiles = {{kind.rows, kind.columns, kind.efficiency}},
                                .multiprocessors = kMultiprocessors,
                                .tile_depth = kind.depth,
                                .most_splits = 10};
      best = std::min(best, tiles.Seconds(shape, 720e12 * Aligned(p), 3.9e12, 2));
    }
    best = std::max(best, shape.flops() / 690e12);
    const double operands = 2 * static_cast<double>(p.m * p.k + p.k * p.n + p.m * p.n) / 3.9e12;
    return std::pow(std::pow(best, 6) + std::pow(operands, 6), 1.0 / 6) + 2.3e-6;
  }
  double Measured(const GpuProduct& p) {
    double normal = 0;  // nearly
    for (int i = 0; i < 12; ++i) normal += static_cast<double>(MakeKey(3, ++draws_).value >> 11) * 0x1p-53;
    return Seconds(p) * std::exp(kNoise * (normal - 6));
  }

 private:
  static double Aligned(const GpuProduct& p) {
    switch (AlignmentOf(p.kernel, {p.m, p.n, p.k}, 2)) {
      case 2: return 0.3;
      case 4: return 0.6;
      case 8: return 0.85;
      default: return 1;
    }
  }
  uint64_t draws_ = 0;
};

ProductTime TimeOf(const GpuProduct& p, double seconds) { return {std::string(p.kernel), {p.m, p.n, p.k}, seconds}; }

// As calibration writes it: points, and what was fitted.
profile::Profile Calibrated(MadeUpGpu& gpu) {
  std::vector<ProductTime> grid, between;
  profile::Profile profile;
  profile.set_name("made up"), profile.set_source("made up"), profile.set_processor("a GPU");
  for (const GpuProduct& p : ProductGrid(Fineness::kFine, kMostFlops, kMostElements)) {
    const double seconds = gpu.Measured(p);
    grid.push_back(TimeOf(p, seconds));
    const double flops = 2 * static_cast<double>(p.m * p.n) * static_cast<double>(p.k);
    AddPoint({p.kernel, DType::kBF16, {p.m, p.n, p.k}}, "bf16", {Flops(flops), Bytes(1), Bytes(1)}, {seconds}, profile);
  }
  for (const GpuProduct& p : ProductsBetween(Fineness::kFine, kMostFlops, kMostElements))
    between.push_back(TimeOf(p, gpu.Measured(p)));
  profile::Gpu& of = *profile.mutable_gpu();
  of.set_memory_bytes(80000000000), of.set_multiprocessors(kMultiprocessors);
  of.mutable_launch()->set_seconds(4e-6), of.mutable_within()->set_bytes_per_second(1.5e12);
  *of.add_products() = FitProducts("bf16", grid, between, kMultiprocessors);
  return profile;
}

// Forward, and the gradients of inputs and of weights, of the layers of GPT-2 and a Llama, for micro-batches whose rows
// are no powers of two.
std::vector<GpuProduct> OfModels() {
  struct Layer {
    int64_t in, out;
  };
  std::vector<Layer> layers;
  for (const int64_t h : {768, 1024, 1280, 1600})
    layers.insert(layers.end(), {{h, 3 * h}, {h, h}, {h, 4 * h}, {4 * h, h}, {h, 50304}});
  layers.insert(layers.end(), {{2048, 3072}, {2048, 2048}, {2048, 16384}, {8192, 2048}, {2048, 128256}});
  std::vector<GpuProduct> products;
  for (const int64_t rows :
       {5120, 6144, 10240, 12288, 20480}) {  // CASES of experiments/studies/gpu_prediction/run.py: batch times sequence
    for (const Layer& l : layers) {
      if (rows == 20480 && l.out == 128256) continue;  // a batch of GPT-2's alone
      products.push_back({"matmul_nt", rows, l.out, l.in});
      products.push_back({"matmul_nn", rows, l.in, l.out});
      products.push_back({"matmul_tn", l.out, l.in, rows});
    }
  }
  return products;
}

struct FitProductsTest : testing::Test {
  MadeUpGpu gpu;
  profile::Profile profile = Calibrated(gpu);
};

TEST_F(FitProductsTest, ProductsOfModelsArePredictedFromOthers) {
  ASSERT_TRUE(CheckProfile(profile, "made up").ok()) << CheckProfile(profile, "made up");
  const profile::Products& fitted = profile.gpu().products(0);
  EXPECT_TRUE(fitted.used());
  EXPECT_GT(fitted.left_out(), 80);
  EXPECT_LT(fitted.median_error(), 0.02);
  ProfileCostModel model(profile);
  std::vector<double> errors;
  double worst = 0;
  std::string where;
  for (const GpuProduct& p : OfModels()) {
    const ops::KernelKey key{p.kernel, DType::kBF16, {p.m, p.n, p.k}};
    const Estimate e =
        model.Time(key, {Flops(2 * static_cast<double>(p.m * p.n) * static_cast<double>(p.k)), Bytes(1), Bytes(1)});
    EXPECT_FALSE(e.extrapolated) << p.kernel << " " << p.m << " x " << p.n << " x " << p.k;
    errors.push_back(std::abs(e.seconds.value() / gpu.Seconds(p) - 1));
    if (errors.back() > worst)
      worst = errors.back(), where = std::string(p.kernel) + " " + std::to_string(p.m) + " x " + std::to_string(p.n) +
                                     " x " + std::to_string(p.k);
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.02);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.04);
  EXPECT_LT(worst, 0.06) << where;
}

// Where no tile explains the times, they are told by their neighbours' rates.
TEST(FitProducts, TimesThatNoTileExplainsAreToldByRates) {
  const auto odd = [](const GpuProduct& p) {
    return 1e-6 + 1e-9 * std::pow(static_cast<double>(p.m) * static_cast<double>(p.n), 0.3) * static_cast<double>(p.k);
  };
  std::vector<ProductTime> grid, between;
  for (const GpuProduct& p : ProductGrid(Fineness::kCoarse, 1e12, kMostElements)) grid.push_back(TimeOf(p, odd(p)));
  for (const GpuProduct& p : ProductsBetween(Fineness::kCoarse, 1e12, kMostElements))
    between.push_back(TimeOf(p, odd(p)));
  const profile::Products fitted = FitProducts("bf16", grid, between, kMultiprocessors);
  EXPECT_FALSE(fitted.used());
  EXPECT_GT(fitted.left_out(), static_cast<int64_t>(between.size()) / 5);
  EXPECT_GE(fitted.worst_error(), fitted.high_error());
  EXPECT_GE(fitted.high_error(), fitted.median_error());
}

TEST(GpuCases, NoProductIsOneOfAPredictionsThatIsHeldAgainst) {
  for (const GpuProduct& mine : OfModels()) {
    for (const Fineness f : {Fineness::kFine, Fineness::kCoarse}) {
      for (const auto& measured :
           {ProductGrid(f, kMostFlops, kMostElements), ProductsBetween(f, kMostFlops, kMostElements)}) {
        for (const GpuProduct& p : measured) {
          EXPECT_FALSE(p.m == mine.m && p.n == mine.n && p.k == mine.k) << p.m << " x " << p.n << " x " << p.k;
        }
      }
    }
  }
}

TEST(GpuCases, HaveWhatACpuIsMeasuredForAndWhatItIsNot) {
  ShapesOnly shapes(kGpuVocabulary), of_cpu;
  std::set<std::pair<std::string_view, DType>> kernels;
  std::set<std::string_view> tf32;
  const std::vector<GpuCase> cases = GpuCases(false, int64_t{1} << 30);
  for (const GpuCase& c : cases) {
    const ops::KernelKey key = ops::Key(c.of.make(shapes));
    EXPECT_TRUE(ops::IsKernel(key.name)) << key.name;
    kernels.emplace(key.name, key.dtype);
    if (c.tf32) tf32.insert(key.name);
  }
  EXPECT_LT(cases.size(), 12000u) << "more than the time it gives itself can sample";
  for (const Case& c : Cases(true)) {
    const ops::KernelKey key = ops::Key(c.make(of_cpu));
    EXPECT_TRUE(kernels.contains({key.name, key.dtype})) << key.name << " " << DTypeName(key.dtype);
  }
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const std::string_view name : {"matmul_nn", "matmul_nt", "matmul_tn", "matmul_gelu", "matmul_gelu_slope",
                                        "attention_forward", "attention_backward", "adam_step"}) {
      EXPECT_TRUE(kernels.contains({name, t})) << name << " " << DTypeName(t);
    }
  }
  for (const std::string_view scaling : {"matmul_fp8_", "matmul_fp8_block_"}) {
    for (const std::string_view kind : {"nn", "nt", "tn", "gelu", "gelu_slope"}) {
      const std::string name = StrCat(scaling, kind);
      EXPECT_TRUE(kernels.contains({name, DType::kU8})) << name;
    }
  }
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const std::string_view name : {"quantise_fp8", "quantise_fp8_blocks"})
      EXPECT_TRUE(kernels.contains({name, t})) << name << " " << DTypeName(t);
    for (const std::string_view name : {"largest_fp8", "round_fp8"})
      EXPECT_EQ(kernels.contains({name, t}), t == DType::kBF16) << name << " " << DTypeName(t);
  }
  EXPECT_TRUE(tf32.contains("matmul_tn"));
}

}  // namespace fit_products_test
}  // namespace twofold::calibrate
