// Which products in FP8 cuBLASLt is asked for, on which GPU, and what workspace they have.
#include "kernels/cuda/fp8_choice.h"

#include <array>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "kernels/cuda/product.h"
#include "tests/unit/kernels/lab.h"

namespace twofold::cuda {
namespace fp8_choice_test {

using ops::Fp8Blocks, ops::Fp8Format;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kVersion = kCublasWithFp8Blocks;
constexpr Capability kAmpere{8, 0}, kAda{8, 9}, kHopper{9, 0}, kBlackwell{10, 0}, kThor{11, 0}, kGeForce{12, 0};

struct Fp8ChoiceTest : testing::Test {
  ops::MatMul Product(bool ta, bool tb, Fp8Blocks a, Fp8Blocks b, int64_t m = 32, int64_t n = 48, int64_t k = 256) {
    const auto operand = [&](int64_t rows, int64_t columns) { return lab.Blank({rows, columns}, DType::kU8); };
    ops::MatMul o{.a = ta ? operand(k, m) : operand(m, k),
                  .b = tb ? operand(n, k) : operand(k, n),
                  .out = lab.Blank({m, n}, DType::kBF16),
                  .transpose_a = ta,
                  .transpose_b = tb};
    o.a_scaling = Scaling(o.a, a, ta ? Fp8Format::kE5M2 : Fp8Format::kE4M3);
    o.b_scaling = Scaling(o.b, b, Fp8Format::kE4M3);
    return o;
  }
  ops::Fp8Scaling Scaling(const Tensor& t, Fp8Blocks blocks, Fp8Format format) {
    return {lab.Blank(ops::Fp8Scales(blocks, t.dim(0), t.dim(1)), DType::kF32), format, blocks};
  }
  // With one scale, and in blocks.
  ops::MatMul Forward() { return Product(false, true, Fp8Blocks::kTensor, Fp8Blocks::kTensor); }
  ops::MatMul ForwardInBlocks(int64_t k = 256) {
    return Product(false, true, Fp8Blocks::kRow, Fp8Blocks::kSquare, 32, 160, k);
  }
  // In blocks, dx = dy W, and dW = dy^T x.
  ops::MatMul InputsInBlocks() { return Product(false, false, Fp8Blocks::kRow, Fp8Blocks::kSquare, 32, 160, 5 * 128); }
  ops::MatMul WeightsInBlocks() {
    ops::MatMul o = Product(true, false, Fp8Blocks::kColumn, Fp8Blocks::kColumn);
    o.a_scaling.format = Fp8Format::kE4M3;
    return o;
  }
  static std::string Why(const ops::MatMul& o, Capability gpu, size_t version = kVersion) {
    return WhyNoLibraryFp8(o, gpu, version);
  }
  Lab lab{1, 0};
};

TEST_F(Fp8ChoiceTest, ForwardIsTheLibrarysWhereverThereIsFp8) {
  EXPECT_THAT(Why(Forward(), kAmpere), HasSubstr("FP8 begins with compute capability 8.9"));
  for (const Capability gpu : {kAda, kHopper, kBlackwell, kThor, kGeForce})
    EXPECT_EQ(Why(Forward(), gpu), "") << gpu.major;
}

TEST_F(Fp8ChoiceTest, BackwardIsTooOfOperandsThatAreTransposedWhereTheyMustBe) {
  const ops::MatMul products[] = {Product(false, false, Fp8Blocks::kTensor, Fp8Blocks::kTensor),
                                  Product(true, false, Fp8Blocks::kTensor, Fp8Blocks::kTensor)};
  for (const ops::MatMul& o : products) {
    for (const Capability gpu : {kAda, kHopper, kBlackwell, kThor, kGeForce}) EXPECT_EQ(Why(o, gpu), "") << gpu.major;
  }
  for (const Capability gpu : {kAda, kHopper, kGeForce})
    EXPECT_TRUE(Fp8Choice(false, gpu, kVersion).along_sum()) << gpu.major;
  for (const Capability gpu : {kBlackwell, Capability{10, 3}, kThor})
    EXPECT_FALSE(Fp8Choice(false, gpu, kVersion).along_sum()) << gpu.major;
}

TEST_F(Fp8ChoiceTest, BlocksAreTheLibrarysOnHopperAlone) {
  EXPECT_EQ(Why(ForwardInBlocks(), kHopper), "");
  EXPECT_THAT(Why(ForwardInBlocks(), kHopper, kVersion - 1), HasSubstr("from version 12.9 on"));
  EXPECT_EQ(Why(Forward(), kHopper, kVersion - 1), "");
  for (const Capability gpu : {kAda, kBlackwell, kGeForce})
    EXPECT_THAT(Why(ForwardInBlocks(), gpu), HasSubstr("on compute capability 9.0 alone")) << gpu.major;
  EXPECT_THAT(Why(ForwardInBlocks(16 * 9), kHopper), HasSubstr("of 128 along the sum"));
  for (const ops::MatMul& o : {InputsInBlocks(), WeightsInBlocks()}) {
    EXPECT_EQ(Why(o, kHopper), "");
    EXPECT_THAT(Why(o, kBlackwell), HasSubstr("on compute capability 9.0 alone"));
  }
  constexpr Fp8Blocks kRow = Fp8Blocks::kRow, kColumn = Fp8Blocks::kColumn, kSquare = Fp8Blocks::kSquare;
  EXPECT_EQ(Why(Product(false, true, kSquare, kRow), kHopper), "");
  for (const auto& [a, b] : {std::pair(kSquare, kSquare), {kColumn, kSquare}, {kRow, kColumn}, {kRow, kRow}}) {
    const bool tb = b == kColumn;  // 128 elements of b share a scale across the sum
    EXPECT_THAT(Why(Product(false, tb, a, b), kHopper), HasSubstr("which lie along the sum")) << static_cast<int>(a);
  }
}

TEST_F(Fp8ChoiceTest, SizesTypesAndAddressesAreTheLibrarys) {
  for (const int which : {0, 1, 2}) {
    int64_t sizes[] = {32, 48, 64};
    sizes[which] += 8;
    const auto o = Product(false, true, Fp8Blocks::kTensor, Fp8Blocks::kTensor, sizes[0], sizes[1], sizes[2]);
    EXPECT_THAT(Why(o, kHopper), HasSubstr("multiples of 16")) << which;
  }
  ops::MatMul bias = Forward();
  bias.bias = lab.Blank({48}, DType::kBF16);
  EXPECT_EQ(Why(bias, kHopper), "");
  bias.bias = lab.Blank({48}, DType::kF32);
  EXPECT_THAT(Why(bias, kHopper), HasSubstr("a bias of the result's type"));
  ops::MatMul wide = Forward();
  wide.a_scaling.format = Fp8Format::kE5M2;
  EXPECT_EQ(Why(wide, kHopper), "");
  wide.b_scaling.format = Fp8Format::kE5M2;
  EXPECT_THAT(Why(wide, kHopper), HasSubstr("E4M3 in one operand"));
  Lab shifted(1, 1);
  ops::MatMul off = Forward();
  off.a = shifted.Blank(off.a.shape(), DType::kU8);
  EXPECT_THAT(Why(off, kHopper), HasSubstr("aligned to 16 bytes"));
  ops::MatMul weights = WeightsInBlocks();
  weights.a_scaling.scales = shifted.Blank(weights.a_scaling.scales.shape(), DType::kF32);
  EXPECT_THAT(Why(weights, kHopper), HasSubstr("aligned to 16 bytes"));
}

TEST_F(Fp8ChoiceTest, TheWorkspaceIsThatOfTheLibraryWhateverTheGpu) {
  const auto bytes = [](const ops::MatMul& o) { return ops::Workspace(o, DeviceKind::kCuda, 1).value(); };
  constexpr int64_t kLibrary = int64_t{32} << 20;
  EXPECT_EQ(bytes(Forward()), kLibrary);
  ops::MatMul bias = Forward();
  bias.bias = lab.Blank({48}, DType::kBF16);
  EXPECT_EQ(bytes(bias), kLibrary + 512);
  // 256 x 48 codes of b, and also 256 x 32 of a
  EXPECT_EQ(bytes(Product(false, false, Fp8Blocks::kTensor, Fp8Blocks::kTensor)), kLibrary + 256 * 48);
  EXPECT_EQ(bytes(Product(true, false, Fp8Blocks::kTensor, Fp8Blocks::kTensor)), kLibrary + 256 * (48 + 32));
  // 32 x 5 scales of a in 640 bytes; 2 x 8 of b in 64
  EXPECT_EQ(bytes(ForwardInBlocks(5 * 128)), kLibrary + 1024 + 512);
  EXPECT_EQ(bytes(ForwardInBlocks(16 * 9)), 0);
  // The same copies of scales, and 640 x 160 codes of b. Scales that lie across the sum are not copied.
  EXPECT_EQ(bytes(InputsInBlocks()), kLibrary + 640 * 160 + 1024 + 512);
  EXPECT_EQ(bytes(WeightsInBlocks()), kLibrary + 256 * (48 + 32));
  EXPECT_EQ(bytes(Product(false, true, Fp8Blocks::kTensor, Fp8Blocks::kTensor, 32, 48, 0)), 0);
}

TEST_F(Fp8ChoiceTest, TheLibrarysAIsOurB) {
  const LibraryProduct p = PlanOf(ForwardInBlocks(), false, false).product;
  EXPECT_TRUE(p.fp8());
  EXPECT_EQ(p.a.scales, LibraryScales::kSquares);
  EXPECT_EQ(p.b.scales, LibraryScales::kInnerBlocks);
  const LibraryProduct weights =
      PlanOf(Product(true, false, Fp8Blocks::kTensor, Fp8Blocks::kTensor), false, false).product;
  EXPECT_EQ(weights.a.format, Fp8Format::kE4M3);
  EXPECT_EQ(weights.b.format, Fp8Format::kE5M2);
  EXPECT_FALSE(weights.transpose_a);
  EXPECT_TRUE(weights.transpose_b);
}

TEST_F(Fp8ChoiceTest, WhatLiesAcrossTheSumIsTurned) {
  const LibraryProduct p =
      AlongSum(PlanOf(Product(true, false, Fp8Blocks::kTensor, Fp8Blocks::kTensor), false, false).product);
  EXPECT_TRUE(p.transpose_a);
  EXPECT_FALSE(p.transpose_b);
  EXPECT_EQ(p.inner(), 256);
  EXPECT_THAT((std::array{p.a.rows, p.a.columns, p.a.leading}), ElementsAre(256, 48, 256));
  EXPECT_THAT((std::array{p.b.rows, p.b.columns, p.b.leading}), ElementsAre(256, 32, 256));
  const LibraryProduct forward = PlanOf(Forward(), false, false).product;
  EXPECT_TRUE(AlongSum(forward) == forward);
}

TEST_F(Fp8ChoiceTest, RemembersWhatTheLibraryRefuses) {
  Fp8Choice choice(false, kHopper, kVersion);
  const auto key = [](const ops::MatMul& o) {
    return KeyOf(PlanOf(o, false, false).product, nullptr, nullptr, nullptr, 0);
  };
  EXPECT_EQ(choice.WhyRefused(key(Forward())), "");
  choice.Refused(key(Forward()), "so");
  EXPECT_EQ(choice.WhyRefused(key(Forward())), "so");
  EXPECT_EQ(choice.WhyRefused(key(ForwardInBlocks())), "");
}

TEST_F(Fp8ChoiceTest, EachKernelAndReasonIsToldOnce) {
  std::vector<std::string> notes;
  Fp8Choice choice(false, kHopper, kVersion);
  choice.Tell(Forward(), "");  // to nobody
  choice.SetNote([&](std::string note) { notes.push_back(std::move(note)); });
  for (int i = 0; i < 2; ++i) {
    choice.Tell(Forward(), "");
    choice.Tell(ForwardInBlocks(), "so");
  }
  EXPECT_THAT(notes, ElementsAre("matmul_fp8_nt: cuBLASLt's kernels", "matmul_fp8_block_nt: own kernels (so)"));
  EXPECT_EQ(choice.WhyOwn(Forward()), "");
  EXPECT_EQ(Fp8Choice(true, kHopper, kVersion).WhyOwn(Forward()), "cuda.fp8: OWN");
}

}  // namespace fp8_choice_test
}  // namespace twofold::cuda
