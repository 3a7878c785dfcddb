// Closed forms of the laws of kernel times: with the other terms out of the way, each term is what its header says.
#include <cmath>
#include <functional>

#include "gtest/gtest.h"
#include "sim/cost/gpu_cost_model.h"
#include "sim/cost/laws/attention_law.h"
#include "sim/cost/laws/gpu_tiles.h"
#include "sim/cost/laws/law_times.h"
#include "sim/cost/laws/product_law.h"

namespace twofold {
namespace laws_test {

constexpr double kNone = 1e12;  // a rate so high that its term takes no time

// Ten multiprocessors of 10 TFLOP/s each; all that takes time are whole waves of the best tile.
cluster::KernelLaws Laws() {
  cluster::KernelLaws laws;
  laws.set_multiprocessors(10), laws.set_generation("ampere");
  cluster::ProductLaw& law = *laws.add_products();
  law.set_tflops(100), law.set_load_gbytes_per_second(kNone), law.set_memory_tbytes_per_second(kNone);
  law.set_burst_tflops(kNone), law.set_lasting_share(1), law.set_settling_us(1);
  law.set_selectivity(1000), law.set_sharpness(8), law.set_partial_tbytes_per_second(1e-9), law.set_evenness(0);
  law.set_call_us(2);
  cluster::AttentionLaw& attention = *laws.add_attention();
  attention.set_tile_rows(128), attention.set_tile_keys(64), attention.set_tflops(100);
  attention.set_tile_us(1), attention.set_call_us(5), attention.set_memory_tbytes_per_second(kNone);
  attention.set_evenness(1), attention.set_tail(0), attention.set_sharpness(8);
  attention.set_keys_tbytes_per_second(1);
  return laws;
}

double Us(const cluster::KernelLaws& laws, const ProductCall& call) {
  return ProductSeconds(laws, laws.products(0), call) * 1e6;
}
double Us(const cluster::KernelLaws& laws, const AttentionCall& call) {
  return AttentionSeconds(laws, laws.attention(0), call) * 1e6;
}
double FlopsUs(double flops) { return flops / 100e6; }

TEST(ProductLawTest, FullWavesTakeTheirFlops) {
  EXPECT_NEAR(Us(Laws(), {.shape = {1, 2560, 512, 4096}}), 2 + FlopsUs(2.0 * 2560 * 512 * 4096), 1e-6);
}

TEST(ProductLawTest, AWaveIsWholeUnlessKernelsSpreadIt) {
  cluster::KernelLaws laws = Laws();
  const double wave = FlopsUs(2.0 * 10 * 128 * 32 * 4096);
  const ProductCall call{.shape = {1, 128 * 15, 32, 4096}};  // 15 tiles of 128 x 32, the smallest, for ten
  EXPECT_NEAR(Us(laws, call), 2 + 2 * wave, 1e-6);
  laws.mutable_products(0)->set_evenness(1);
  EXPECT_NEAR(Us(laws, call), 2 + 1.5 * wave, 1e-6);
}

TEST(ProductLawTest, TheSlowerOfMultiplyingAndLoadingCounts) {
  cluster::KernelLaws laws = Laws();
  laws.mutable_products(0)->set_load_gbytes_per_second(1);  // loading hides multiplying
  const double us = Us(laws, {.shape = {1, 2560, 512, 4096}});
  // Tiles of 256 x 128 load the least per element: 4 waves of ten.
  EXPECT_NEAR(us, 2 + 4 * 4096 * (256 + 128) * 2 / 1e3, 1e-3 * us);
}

TEST(ProductLawTest, ThinProductsReadTheirBytes) {
  cluster::KernelLaws laws = Laws();
  laws.mutable_products(0)->set_tflops(kNone), laws.mutable_products(0)->set_memory_tbytes_per_second(2);
  EXPECT_NEAR(Us(laws, {.shape = {1, 128, 4096, 4096}}), 2 + 2.0 * (2 * 128 * 4096 + 4096.0 * 4096) / 2e6, 1e-3);
  EXPECT_NEAR(Us(laws, {.shape = {1, 128, 4096, 4096}, .result_bytes = 8}),
              2 + (2.0 * (128 * 4096 + 4096.0 * 4096) + 8.0 * 128 * 4096) / 2e6, 1e-3);
}

TEST(ProductLawTest, LongProductsLoseTheirBurst) {
  cluster::KernelLaws laws = Laws();
  cluster::ProductLaw& law = *laws.mutable_products(0);
  law.set_tflops(kNone), law.set_burst_tflops(100), law.set_lasting_share(0.5), law.set_settling_us(100);
  const ProductCall small{.shape = {1, 512, 512, 512}}, large{.shape = {1, 1 << 16, 1 << 16, 1 << 14}};
  const double burst = FlopsUs(small.shape.flops());
  EXPECT_NEAR(Us(laws, small), 2 + burst / (0.5 + 0.5 / (1 + burst / 100)), 1e-6);
  const double lasting = 2 * FlopsUs(large.shape.flops());
  EXPECT_NEAR(Us(laws, large), 2 + lasting, 1e-3 * lasting);
}

TEST(ProductLawTest, EightBitsAreQuantisedFirstAndNoCallIsShorterThanTheHosts) {
  cluster::KernelLaws laws = Laws();
  cluster::ProductLaw& law = *laws.mutable_products(0);
  const ProductCall call{.shape = {1, 2560, 512, 4096}};
  const double product = Us(laws, call);
  law.set_dtype("fp8"), law.set_quantise_ns(2), law.set_quantise_tbytes_per_second(1);
  EXPECT_NEAR(Us(laws, call), product + 2560 * 2e-3 + 3.0 * 2560 * 4096 / 1e6, 1e-6);
  law.set_host_us(1e4);
  EXPECT_NEAR(Us(laws, call), 1e4, 1);
}

TEST(ProductLawTest, CodesAreNotQuantisedAgain) {
  cluster::KernelLaws laws = Laws();
  cluster::ProductLaw& law = *laws.mutable_products(0);
  ProductCall call{.shape = {1, 2560, 512, 4096}};
  const double product = Us(laws, call);
  law.set_dtype("fp8"), law.set_quantise_ns(2), law.set_quantise_tbytes_per_second(1), law.set_host_us(1e4);
  call.quantised = true;
  EXPECT_EQ(Us(laws, call), product);
}

TEST(ProductLawTest, TheVariantOfTheColumnHoldsElseTheFirst) {
  cluster::KernelLaws laws = Laws();
  laws.mutable_products(0)->set_column("a");
  laws.add_products()->set_column("b");
  laws.add_products()->set_dtype("fp8");
  EXPECT_EQ(ProductLawOf(laws, "bf16")->column(), "a");
  laws.set_column("b");
  EXPECT_EQ(ProductLawOf(laws, "bf16")->column(), "b");
  EXPECT_EQ(ProductLawOf(laws, "fp8"), &laws.products(2));
  EXPECT_EQ(ProductLawOf(laws, "fp8_block"), nullptr);
}

TEST(ProductLawTest, TheErrorIsThatOfTheRegion) {
  cluster::ProductLaw law;
  EXPECT_EQ(ProductError(law, 1e9), kUnknownLawError);
  for (const auto& [from, p90] : {std::pair(0.0, 0.3), {1e9, 0.2}, {1e11, 0.1}})
    law.add_residuals()->set_from(from), law.mutable_residuals()->rbegin()->set_p90(p90);
  EXPECT_EQ(ProductError(law, 1e8), 0.3);
  EXPECT_EQ(ProductError(law, 1e10), 0.2);
  EXPECT_EQ(ProductError(law, 1e13), 0.1);
}

TEST(ProductLawTest, DoubtAboutTheTrainingRateIsThatOfThePowersShare) {
  cluster::KernelLaws laws = Laws();
  EXPECT_EQ(TrainingError(laws), kUnknownTrainingError) << "no training calibrated it";
  laws.set_training_tflops(50);
  EXPECT_EQ(TrainingError(laws), 0);
  laws.set_training_error(0.4);
  ProductCall call{.shape = {1, 2560, 512, 4096}};
  const auto error = [&] {
    return TrainingError(laws, laws.products(0), call, ProductSeconds(laws, laws.products(0), call));
  };
  EXPECT_EQ(error(), 0) << "of a product alone";
  call.training = 1;
  EXPECT_NEAR(error(), 0.4, 0.01) << "at half the tiles' rate, power limits it";
  laws.set_training_tflops(100), laws.mutable_products(0)->set_tflops(25);
  laws.mutable_products(0)->set_burst_tflops(100);
  EXPECT_NEAR(error(), 0.1, 0.002) << "tiles limit it: power alone would take a quarter of the time";
}

TEST(AttentionLawTest, OneWaveTakesAsLongAsItsLongestTile) {
  // 10 tiles of 128 queries, each against 1280 keys in 20 steps.
  const AttentionCall call{
      .batch = 1, .queries = 1280, .keys = 1280, .heads = 1, .kv_heads = 1, .head_dim = 128, .causal = false};
  const double longest = 20 * FlopsUs(4.0 * 128 * 64 * 128 * 10) + 1;
  EXPECT_NEAR(Us(Laws(), call), 5 + longest, 1e-6);
}

TEST(AttentionLawTest, CausalTilesStopAtTheirLastQuery) {
  AttentionCall call{.batch = 8, .queries = 1280, .keys = 1280, .heads = 16, .kv_heads = 16, .head_dim = 128};
  cluster::KernelLaws laws = Laws();
  laws.mutable_attention(0)->set_evenness(0);
  // Tile i of 10 has 2 i steps: 110 of a head, instead of 200.
  const double heads = 128, step = FlopsUs(4.0 * 128 * 64 * 128 * 10);
  EXPECT_NEAR(Us(laws, call), 5 + heads * (110 * step + 10) / 10, 1e-6);
  call.causal = false;
  EXPECT_NEAR(Us(laws, call), 5 + heads * (200 * step + 10) / 10, 1e-6);
}

TEST(AttentionLawTest, TheBackwardPassHasFiveProductsForTwo) {
  cluster::KernelLaws laws = Laws();
  laws.mutable_attention(0)->set_tile_us(1e-9), laws.mutable_attention(0)->set_tile_keys(128);
  laws.set_attention_backward_efficiency(0.5);
  AttentionCall call{.batch = 8, .queries = 1280, .keys = 1280, .heads = 10, .kv_heads = 10, .head_dim = 64};
  const double forward = Us(laws, call) - 5;
  call.backward = true;
  EXPECT_NEAR(Us(laws, call) - 5, 5 * forward, 1e-6 * forward);
}

TEST(AttentionLawTest, GroupedKeysAreReadAndCachedOnce) {
  cluster::KernelLaws laws = Laws();
  laws.mutable_attention(0)->set_tflops(kNone), laws.mutable_attention(0)->set_tile_us(1e-9);
  laws.mutable_attention(0)->set_memory_tbytes_per_second(2);
  AttentionCall call{.batch = 2, .queries = 4096, .keys = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128};
  const double q = 2.0 * 4096 * 32 * 128 * 4, kv = 2.0 * 4096 * 8 * 128 * 4;
  EXPECT_NEAR(Us(laws, call), 5 + (q + kv) / 2e6, 1e-3);
  call.cached = true;
  EXPECT_NEAR(Us(laws, call), 5 + (q + kv) / 2e6 + kv / 1e6, 1e-3);
}

TEST(AttentionLawTest, WidthsBetweenListedOnesAreInterpolated) {
  cluster::KernelLaws laws = Laws();
  laws.mutable_attention(0)->set_tile_us(1e-9);
  for (const auto& [width, factor] : {std::pair(64, 2.0), {128, 1.0}}) {
    cluster::AttentionLaw::Width& w = *laws.mutable_attention(0)->add_widths();
    w.set_head_dim(width), w.set_factor(factor);
  }
  const auto per_width = [&laws](int64_t width) {
    return (Us(laws,
               AttentionCall{
                   .batch = 8, .queries = 1280, .keys = 1280, .heads = 10, .kv_heads = 10, .head_dim = width}) -
            5) /
           static_cast<double>(width);
  };
  EXPECT_NEAR(per_width(64) / per_width(128), 2, 1e-6);
  EXPECT_NEAR(per_width(32) / per_width(128), 2, 1e-6);
  EXPECT_NEAR(per_width(256) / per_width(128), 1, 1e-6);
  EXPECT_NEAR(per_width(96) / per_width(128), 2 - std::log(1.5) / std::log(2), 1e-6);
}

// ---- Operations ----
struct LawTimesTest : testing::Test {
  LawTimesTest() {
    device.set_name("gpu"), device.set_memory_bytes_per_second(1e12), device.set_kernel_us(3);
    device.set_f32_flops_per_second(1e13), device.set_bf16_flops_per_second(1e14);
    *device.mutable_laws() = Laws();
  }
  Tensor New(Shape shape, DType dtype = DType::kBF16) {
    return Allocate(allocator, std::move(shape), dtype, Category::kOther);
  }
  double Seconds(const ops::Op& op) const { return GpuCostModel(device).Time(op).seconds.value(); }
  MallocSource source;
  CachingAllocator allocator{source, 0};
  cluster::Device device;
};

TEST_F(LawTimesTest, LayoutsHaveTheirFactors) {
  device.mutable_laws()->set_nn_factor(1.25), device.mutable_laws()->set_nt_factor(1.5);
  const Tensor x = New({1024, 1024}), y = New({1024, 1024}), out = New({1024, 1024});
  const double forward = Seconds(ops::MatMul{.a = x, .b = y, .out = out, .transpose_b = true});
  EXPECT_NEAR(forward, ProductSeconds(device.laws(), device.laws().products(0), {.shape = {1, 1024, 1024, 1024}}),
              1e-15);
  EXPECT_NEAR(Seconds(ops::MatMul{.a = x, .b = y, .out = out}) / forward, 1.25, 1e-9);
  EXPECT_NEAR(Seconds(ops::MatMul{.a = x, .b = y, .out = out, .transpose_a = true}) / forward, 1.5, 1e-9);
}

// 15 tiles in two waves of ten; three such parts side by side are 45 tiles in five.
TEST_F(LawTimesTest, PartsSideBySideTakeTheirShareOfTheWhole) {
  const auto product = [this](int64_t rows) {
    return ops::MatMul{.a = New({rows, 4096}), .b = New({32, 4096}), .out = New({rows, 32}), .transpose_b = true};
  };
  ops::MatMul part = product(128 * 15);
  part.parts = 3;
  GpuCostModel model(device);
  EXPECT_EQ(model.Time(part).seconds, model.Time(product(128 * 15)).seconds) << "alone";
  const double wave = FlopsUs(2.0 * 10 * 128 * 32 * 4096);
  EXPECT_NEAR(model.TimeOfPart(part).seconds.value() * 1e6, (2 + 5 * wave) / 3, 1e-6);
  EXPECT_NEAR(model.Time(part).seconds.value() * 1e6, 2 + 2 * wave, 1e-6);
}

TEST_F(LawTimesTest, OtherTypesFollowTheDataSheetsPeaks) {
  const auto product = [this](DType type) {
    return Seconds(ops::MatMul{.a = New({2560, 512}, type), .b = New({512, 512}, type), .out = New({2560, 512}, type)});
  };
  EXPECT_NEAR((product(DType::kF32) - 2e-6) / (product(DType::kBF16) - 2e-6), 10, 1e-6);
  EXPECT_NEAR(product(DType::kF16), product(DType::kBF16), 1e-15);
}

TEST_F(LawTimesTest, RowsThatAreNotAlignedLoseTheirShare) {
  for (const auto& [bytes, share] : {std::pair(2, 0.25), {16, 0.5}}) {
    cluster::Kernels::Alignment& a = *device.mutable_laws()->add_alignments();
    a.set_bytes(bytes), a.set_efficiency(share);
  }
  const auto product = [this](int64_t k) {
    return (Seconds(
                ops::MatMul{.a = New({2560, k}), .b = New({512, k}), .out = New({2560, 512}), .transpose_b = true}) -
            2e-6) /
           static_cast<double>(k);
  };
  const double aligned = product(1792);
  EXPECT_NEAR(product(1800) / aligned, 2, 1e-6);  // 3,600 bytes are a multiple of 16
  EXPECT_NEAR(product(1801) / aligned, 4, 1e-6);
}

TEST_F(LawTimesTest, IntervalsAreTheLawsResidualsAndTwiceThatForOtherTypes) {
  cluster::Residuals& r = *device.mutable_laws()->mutable_products(0)->add_residuals();
  r.set_from(1e8), r.set_p90(0.1), r.set_count(20);
  const auto product = [this](DType type) {
    return GpuCostModel(device).Time(
        ops::MatMul{.a = New({512, 512}, type), .b = New({512, 512}, type), .out = New({512, 512}, type)});
  };
  const Estimate e = product(DType::kBF16), f = product(DType::kF32);
  EXPECT_NEAR(e.high.value() / e.seconds.value(), 1.1, 1e-9);
  EXPECT_NEAR(e.low.value() / e.seconds.value(), 0.9, 1e-9);
  EXPECT_NEAR(f.high.value() / f.seconds.value(), 1.2, 1e-9);
  EXPECT_EQ(e.source, Source::kLaw);
  EXPECT_EQ(f.source, Source::kExtrapolated);
  device.mutable_laws()->set_training_error(0.4);
  device.mutable_laws()->mutable_products(0)->set_burst_tflops(1);
  device.mutable_laws()->mutable_products(0)->mutable_residuals(0)->set_p90(0.3);
  const Estimate doubtful = product(DType::kBF16);
  EXPECT_NEAR(doubtful.high.value() / doubtful.seconds.value(), 1 + std::hypot(0.3, 0.4), 0.02);
  EXPECT_EQ(doubtful.source, Source::kLaw);
  const Tensor small = New({16, 16}), x = New({1024});
  EXPECT_EQ(GpuCostModel(device).Time(ops::MatMul{.a = small, .b = small, .out = small}).source, Source::kExtrapolated)
      << "smaller than what the law was checked on";
  EXPECT_EQ(GpuCostModel(device).Time(ops::Add{x, x, x}).source, Source::kDataSheet);
  device.mutable_laws()->mutable_products(0)->mutable_residuals(0)->clear_count();
  EXPECT_EQ(product(DType::kBF16).source, Source::kExtrapolated) << "an assumed error";
}

TEST_F(LawTimesTest, AttentionAndItsBlocksFollowTheLaw) {
  const AttentionCall call{.batch = 2, .queries = 256, .keys = 256, .heads = 4, .kv_heads = 2, .head_dim = 64};
  const double expected = AttentionSeconds(device.laws(), device.laws().attention(0), call);
  const Tensor qkv = New({2, 256, 8 * 64}), out = New({2, 256, 256}), lse = New({2, 4, 256}, DType::kF32);
  EXPECT_NEAR(Seconds(ops::AttentionForward{.qkv = qkv, .out = out, .lse = lse, .heads = 4, .kv_heads = 2}), expected,
              1e-15);
  const ops::AttentionBlock block{
      .heads = 4, .kv_heads = 2, .head_dim = 64, .queries = 256, .keys = 256, .causal = true};
  const double one = Seconds(ops::AttentionBlockForward{
      .q = qkv, .kv = qkv, .out = New({2, 256, 256}, DType::kF32), .lse = lse, .block = block});
  EXPECT_NEAR(one, expected, 1e-12);  // the result is wider; memory is too fast to matter here
}

TEST_F(LawTimesTest, AttentionOfOtherTypesScalesItsFlopsAlone) {
  const auto attention = [this](DType type) {
    return Seconds(ops::AttentionForward{.qkv = New({8, 1280, 3 * 10 * 64}, type),
                                         .out = New({8, 1280, 640}, type),
                                         .lse = New({8, 10, 1280}, DType::kF32),
                                         .heads = 10,
                                         .kv_heads = 10});
  };
  device.mutable_laws()->mutable_attention(0)->set_tile_us(1e-9);
  EXPECT_NEAR((attention(DType::kF32) - 5e-6) / (attention(DType::kBF16) - 5e-6), 10, 1e-4);
}

TEST_F(LawTimesTest, OtherKernelsFollowTheirBytes) {
  device.set_memory_efficiency(0.5);
  const Tensor x = New({1 << 20});
  EXPECT_NEAR(Seconds(ops::Add{x, x, x}), 3e-6 + 6.0 * (1 << 20) / 0.5e12, 1e-15);
}

TEST(CheckLawsTest, SaysWhichFieldIsWrongAndWhatWouldBeRight) {
  struct Case {
    std::function<void(cluster::KernelLaws&)> break_it;
    std::string message;
  };
  cluster::KernelLaws good = Laws();
  good.mutable_products(0)->set_tile_us(1), good.mutable_products(0)->set_store_ns(1);
  EXPECT_EQ(CheckLaws(good).message(), "");
  const Case cases[] = {
      {[](auto& l) { l.set_multiprocessors(0); }, "multiprocessors: 0: must be 1 or more"},
      {[](auto& l) { l.set_generation("fermi"); },
       "generation: \"fermi\": must be volta, ampere, hopper, blackwell or cdna"},
      {[](auto& l) { l.mutable_products(0)->set_dtype("int8"); },
       "products.dtype: \"int8\": must be bf16, fp8 or fp8_block"},
      {[](auto& l) { l.mutable_products(0)->set_tflops(0); }, "products.tflops: 0: must be greater than 0"},
      {[](auto& l) { l.mutable_products(0)->set_evenness(-1); }, "products.evenness: -1: must not be negative"},
      {[](auto& l) { l.mutable_products(0)->set_dtype("fp8"); },
       "products.quantise_tbytes_per_second: 0: must be greater than 0"},
      {[](auto& l) { l.mutable_attention(0)->set_tile_rows(0); }, "attention.tile_rows: 0: must be greater than 0"},
      {[](auto& l) { l.mutable_attention(0)->add_widths(); },
       "attention.widths: 0 with factor 0: widths must ascend from 1 or more, factors must be greater than 0"},
      {[](auto& l) { l.set_training_tflops(-1); }, "training_tflops: -1: must not be negative; 0: that of the law"},
      {[](auto& l) { l.set_training_error(1); }, "training_error: 1: must be in [0, 1)"},
      {[](auto& l) { l.set_nn_factor(0); }, "nn_factor: 0: must be greater than 0"},
      {[](auto& l) { l.add_alignments()->set_bytes(0); },
       "alignments: 0 bytes with efficiency 1: bytes must ascend from 1, efficiencies must be greater than 0"}};
  for (const Case& c : cases) {
    cluster::KernelLaws laws = good;
    c.break_it(laws);
    EXPECT_EQ(CheckLaws(laws).message(), c.message);
  }
}

}  // namespace laws_test
}  // namespace twofold
