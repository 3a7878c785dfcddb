#include "experiments/program/calibrate/fit_laws.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/base/strings.h"
#include "experiments/program/calibrate/fit_factors.h"
#include "experiments/program/calibrate/from_table.h"
#include "experiments/program/calibrate/law_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/laws/gpu_tiles.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace fit_laws_test {

using calibrate::LawTable;
using testing::HasSubstr;

LawTable Parsed(std::string_view text) { return *LawTable::Parse(text, "t.csv"); }

// ---- Tables ----
TEST(LawTableTest, ReadsTextAndCompressedText) {
  const std::string folder = testing::TempDir(), plain = folder + "/laws.csv", packed = folder + "/laws.csv.gz";
  std::ofstream(plain) << "m,us_a\r\n512,2.5\n\n1024,\n";
  const gzFile file = gzopen(packed.c_str(), "wb");
  gzputs(file, "m,us_a\n512,2.5\n1024,\n");
  gzclose(file);
  for (const std::string& path : {plain, packed}) {
    const auto table = LawTable::Read(path);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(*table->Sizes("m"), (std::vector<int64_t>{512, 1024}));
    EXPECT_EQ(*table->Numbers("us_a"), (std::vector<double>{2.5, 0}));
  }
}

TEST(LawTableTest, NamesTheWrongCell) {
  EXPECT_EQ(LawTable::Parse("m,n\n1,2\n3\n", "t.csv").status().message(),
            "t.csv:3: has 1 cells; the first line names 2 columns");
  EXPECT_THAT(LawTable::Parse("m,n\n", "t.csv").status().message(), HasSubstr("t.csv: has no rows"));
  EXPECT_EQ(Parsed("m\n8\n0\n").Sizes("m").status().message(),
            "t.csv: row 2, column m: \"0\": must be an integer from 1 to 2^31");
  EXPECT_EQ(Parsed("us_a\n-3\n").Numbers("us_a").status().message(),
            "t.csv: row 1, column us_a: \"-3\": must be a number that is not negative");
  EXPECT_EQ(Parsed("us_a\nfast\n").Numbers("us_a").status().message(),
            "t.csv: row 1, column us_a: \"fast\": must be a number that is not negative");
  EXPECT_FALSE(LawTable::Read(testing::TempDir() + "/missing.csv").ok());
}

TEST(FromTableTest, RefusesWhatItCannotFit) {
  const std::string folder = testing::TempDir(), out = folder + "/device.textproto";
  const auto refused = [&](const std::string& text, calibrate::FromTable options) {
    options.table = folder + "/refused.csv";
    std::ofstream(options.table) << text;
    if (options.gpu.empty()) options.gpu = "h100-sxm";
    if (options.out.empty()) options.out = out;
    return std::string(calibrate::CalibrateFrom(options).message());
  };
  const std::string products = "m,n,k,us_a\n512,512,512,5\n";
  EXPECT_THAT(refused(products, {.gpu = "h10-sxm"}), HasSubstr("did you mean h100-sxm or"));
  EXPECT_THAT(refused(products, {.dtype = "int8"}), HasSubstr("--dtype must be bf16, fp8 or fp8_block"));
  EXPECT_THAT(refused(products, {.out = folder + "/device.csv"}), HasSubstr("must end in .textproto"));
  EXPECT_THAT(refused(products, {.column = "us_b"}), HasSubstr("--column: \"us_b\""));
  EXPECT_THAT(refused(products, {}), HasSubstr("1 rows have a time in us_a; a fit needs 20 or more"));
  EXPECT_THAT(refused("a,b\n1,2\n", {}), HasSubstr("its columns (a, b) are those of no law"));
  EXPECT_THAT(refused("batch,sequence,heads,kv_heads,head_dim,us_a\n1,512,8,3,64,5\n", {}),
              HasSubstr("row 1: kv_heads=3 does not divide heads=8"));
}

// ---- Fits ----
std::vector<calibrate::MeasuredProduct> ProductsBy(const cluster::KernelLaws& laws, const cluster::ProductLaw& law) {
  std::vector<calibrate::MeasuredProduct> rows;
  for (const int64_t m : {512, 1024, 1536, 2048, 4096, 8192, 16384}) {
    for (const int64_t n : {512, 1024, 2048, 4096, 8192}) {
      for (const int64_t k : {512, 1024, 2048, 4096, 8192}) {
        const ProductShape shape{1, m, n, k};
        rows.push_back({shape, ProductSeconds(laws, law, {.shape = shape}) * 1e6});
      }
    }
  }
  return rows;
}

TEST(FitLawsTest, PredictsShapesThatWereLeftOutOfATableOfTheLawsOwn) {
  const cluster::Device device = *FindDevice("a100-sxm");
  cluster::ProductLaw truth = device.laws().products(0);
  truth.set_tflops(300), truth.set_tile_us(2), truth.set_burst_tflops(270), truth.set_call_us(4);
  const auto rows = ProductsBy(device.laws(), truth);
  const cluster::ProductLaw fitted = calibrate::FitProductLaw(device, "bf16", rows);
  const cluster::Residuals r = calibrate::LargeResiduals(device.laws(), fitted, rows);
  EXPECT_GT(r.count(), 20);
  EXPECT_LT(r.median(), 0.02);
  EXPECT_LT(r.p90(), 0.05);
  EXPECT_EQ(calibrate::FitProductLaw(device, "bf16", rows).SerializeAsString(), fitted.SerializeAsString());
}

TEST(FitLawsTest, AboutAFifthIsLeftOut) {
  int left_out = 0, all = 0;
  for (int64_t m = 128; m < 4096; m += 32) {
    for (int64_t n = 128; n < 4096; n += 128) left_out += calibrate::IsLeftOut(ProductShape{1, m, n, 512}), ++all;
  }
  EXPECT_NEAR(left_out, all / 5, all / 25);
}

// ---- Factors ----
TEST(FitFactorsTest, LayoutsAreRelativeToTheFirst) {
  cluster::KernelLaws laws = FindDevice("a100-sxm")->laws();
  const ProductShape shape{1, 4096, 4096, 4096};
  const auto efficiency = [&](double result, double factor) {
    const double seconds = ProductSeconds(laws, laws.products(0), {.shape = shape, .result_bytes = result});
    return shape.flops() / (2 * factor * seconds * 1e14);  // on a machine half as fast
  };
  const std::string head = "m,k,n,layout,accumulate,out_dtype,efficiency,peak_tflops\n", size = "4096,4096,4096,";
  const std::string tn = StrCat(size, "TN,False,bf16,", efficiency(2, 1), ",100\n"),
                    nn = StrCat(size, "NN,False,bf16,", efficiency(2, 1.25), ",100\n"),
                    nt = StrCat(size, "NT,True,fp32,", efficiency(8, 1.5), ",100\n");
  EXPECT_TRUE(calibrate::FitLayouts(Parsed(head + tn + nn + nt), laws).ok());
  EXPECT_NEAR(laws.nn_factor(), 1.25, 1e-3);
  EXPECT_NEAR(laws.nt_factor(), 1.5, 1e-3);
  EXPECT_EQ(calibrate::FitLayouts(Parsed(head + tn + nn), laws).message(), "t.csv: has no rows of NT");
  cluster::KernelLaws none;
  EXPECT_THAT(calibrate::FitLayouts(Parsed(head + tn), none).message(), HasSubstr("needs a device with a law of bf16"));
}

TEST(FitFactorsTest, TheBackwardPassIsRelativeToTheForwardPass) {
  cluster::KernelLaws laws = FindDevice("a100-sxm")->laws();
  laws.set_attention_backward_efficiency(0.7);
  const AttentionCall forward{1, 4096, 4096, 32, 8, 128, true, false};
  AttentionCall backward = forward;
  backward.backward = true;
  const double scores = 32.0 * 4096 * 4096;
  const auto line = [&](const char* pass, const AttentionCall& call, double flops) {
    return StrCat(pass, ",1,4096,32,8,128,128,", flops / AttentionSeconds(laws, laws.attention(0), call) / 1e14,
                  ",100\n");
  };
  const std::string head = "pass,batch,seq_len,head_num,kv_head_num,qk_head_dim,v_head_dim,efficiency,peak_tflops\n";
  const LawTable table =
      Parsed(head + line("forward", forward, 4 * scores * 128) + line("backward", backward, 10 * scores * 128));
  ASSERT_TRUE(calibrate::FitBackward(table, laws).ok());
  EXPECT_NEAR(laws.attention_backward_efficiency(), 0.7, 0.02);  // memory and the least time of a kernel do not scale
}

TEST(FitFactorsTest, ExpertsInOneKernelAreRelativeToTheirTiles) {
  cluster::KernelLaws laws = FindDevice("a100-sxm")->laws();
  const double seconds = ProductSeconds(laws, laws.products(0), {.shape = {40, 616, 3072, 5120}});
  const double rate = 2.0 * 40 * 616 * 3072 * 5120 / (1.2 * seconds) / 1e14;
  const std::string head = "ng,M,N,K,stage,efficiency,peak_tflops\n";
  std::string rows;
  for (const char* stage : {"fwd", "bwd_grad_act", "bwd_grad_w"})
    rows += StrCat("40,616,3072,5120,", stage, ",", rate, ",100\n");
  ASSERT_TRUE(calibrate::FitGrouped(Parsed(head + rows), laws).ok());
  EXPECT_NEAR(laws.grouped_factor(), 1.2, 1e-3);
  EXPECT_GT(laws.grouped_nn_factor(), 0);
}

// ---- The catalogue's devices ----
TEST(CatalogueDevicesTest, HaveLawsThatCanBeUsed) {
  const std::vector<std::string> names = ListDevices();
  EXPECT_GE(names.size(), 8u);
  for (const std::string& name : names) {
    const auto device = FindDevice(name);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_TRUE(CheckLaws(device->laws()).ok()) << name << ": " << CheckLaws(device->laws()).message();
    EXPECT_NE(ProductLawOf(device->laws(), "bf16"), nullptr) << name;
    EXPECT_NE(AttentionLawOf(device->laws()), nullptr) << name;
    EXPECT_FALSE(device->source().empty()) << name;
  }
}

// Known shapes and their times in microseconds, as measured (the study's tables; left out of the fit).
TEST(CatalogueDevicesTest, KeepTheirErrorsOnMeasuredShapes) {
  struct Row {
    const char* device;
    ProductShape shape;
    double us;
  };
  // A100: SGLang's; others: the geometric mean of SGLang's and TensorRT-LLM's.
  const Row rows[] = {{"a100-sxm", {1, 2560, 7168, 6144}, 987.7},   {"a100-sxm", {1, 16384, 8192, 65536}, 7.024e+04},
                      {"a100-sxm", {1, 4353, 3072, 65536}, 7374},   {"a100-sxm", {1, 1792, 16384, 8192}, 2044},
                      {"a100-sxm", {1, 3328, 6144, 10240}, 1678},   {"h100-sxm", {1, 32768, 3072, 2048}, 531.8},
                      {"h100-sxm", {1, 3841, 65536, 7168}, 4956},   {"h100-sxm", {1, 16384, 2560, 8192}, 887.8},
                      {"h100-sxm", {1, 1281, 4096, 2560}, 37.83},   {"h100-sxm", {1, 32768, 3584, 5120}, 1641},
                      {"h200-sxm", {1, 1024, 7168, 4096}, 89.39},   {"h200-sxm", {1, 3841, 10240, 51200}, 5824},
                      {"h200-sxm", {1, 2561, 6144, 1024}, 50.66},   {"h200-sxm", {1, 4353, 7168, 4096}, 330.1},
                      {"h200-sxm", {1, 2560, 5120, 4096}, 147.9},   {"b200-sxm", {1, 2304, 3072, 2560}, 27.91},
                      {"b200-sxm", {1, 3841, 12288, 12288}, 752.2}, {"b200-sxm", {1, 4353, 2560, 6144}, 115.4},
                      {"b200-sxm", {1, 4353, 6144, 65536}, 2285},   {"b200-sxm", {1, 4096, 2048, 1536}, 19.15},
                      {"gb200", {1, 3329, 7168, 12288}, 354.3},     {"gb200", {1, 2048, 2048, 3584}, 20.77},
                      {"gb200", {1, 2560, 3072, 4096}, 49.94},      {"gb200", {1, 2048, 3072, 1024}, 10.51},
                      {"gb200", {1, 4352, 4096, 2560}, 55.96}};
  std::vector<double> errors;
  for (const Row& row : rows) {
    EXPECT_TRUE(calibrate::IsLeftOut(row.shape)) << row.device << " " << row.shape.m;
    const cluster::KernelLaws laws = FindDevice(row.device)->laws();
    const double us = ProductSeconds(laws, laws.products(0), {.shape = row.shape}) * 1e6;
    errors.push_back(std::abs(us / row.us - 1));
    EXPECT_LT(errors.back(), 0.2) << row.device << " " << row.shape.m << " x " << row.shape.n << " x " << row.shape.k;
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.05);
}

}  // namespace fit_laws_test
}  // namespace twofold
