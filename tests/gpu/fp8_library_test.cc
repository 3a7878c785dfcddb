// Products of FP8 operands that cuBLASLt is asked for, against the CPU.
#include <cstdlib>

#include "kernels/cuda/capability.h"
#include "tests/gpu/fp8_on_gpu.h"

namespace twofold {
namespace fp8_test {

constexpr Options kForward[] = {
    {.m = 16, .n = 16, .k = 16},
    {.m = 48, .n = 144, .k = 272, .format_a = Fp8Format::kE5M2},
    {.m = 16, .n = 272, .k = 128, .blocks_a = Fp8Blocks::kRow, .blocks_b = Fp8Blocks::kSquare},
    {.m = 144, .n = 48, .k = 5 * 128, .blocks_a = Fp8Blocks::kRow, .blocks_b = Fp8Blocks::kSquare},
    {.m = 272, .n = 160, .k = 4 * 128, .blocks_a = Fp8Blocks::kRow, .blocks_b = Fp8Blocks::kSquare}};

// Whether there was a note of a kernel of these options, and what it said.
std::string Told(const Gpu& gpu, std::string_view kernel) {
  for (const std::string& note : gpu.notes) {
    if (note.starts_with(StrCat(std::string(kernel), ": "))) return note.substr(kernel.size() + 2);
  }
  return "nothing";
}
std::string NameOf(const Options& o, std::string_view kind) {
  return StrCat(o.blocks_a == Fp8Blocks::kTensor ? "matmul_fp8_" : "matmul_fp8_block_", std::string(kind));
}
// The emulated GPU is Hopper. With TWOFOLD_EMULATED_CAPABILITY=100 it is Blackwell, whose library has all layouts, and
// with 89 it is Ada. Theirs have no blocks of scales.
bool IsHopper() { return cuda::CapabilityOf(0).major == 9; }
[[maybe_unused]] bool LiesAlongSum() { return cuda::CapabilityOf(0).major != 10; }
void ExpectOfLibrary(const Gpu& gpu, const Options& o, std::string_view kind) {
  const std::string kernel = NameOf(o, kind);
#ifdef TWOFOLD_EMULATED_CUDA
  if (o.blocks_a == Fp8Blocks::kTensor || IsHopper()) {
    EXPECT_EQ(Told(gpu, kernel), "cuBLASLt's kernels") << kernel;
  } else {
    EXPECT_THAT(Told(gpu, kernel), testing::StartsWith("own kernels (cuBLASLt has ")) << kernel;
  }
#else
  EXPECT_NE(Told(gpu, kernel), "nothing") << kernel;
#endif
}

TEST_F(Fp8OnGpu, ForwardProductsOfTheLibraryAreThoseOfTheCpu) {
  Gpu gpu;
  for (Options o : kForward) {
    for (const DType out : kNarrow) {
      for (const bool more : {false, true}) {
        o.out = o.bias_type = out, o.bias = more, o.accumulate = more;
        SCOPED_TRACE(o.Text());
        gpu.notes.clear();
        Pair pair(0, &gpu.device);
        const Outputs got = Multiply(pair, o, Whole, 1);
        EXPECT_TRUE(Pair::Read(got.out.gpu) == BitsOf(got.out.cpu)) << "the product differs";
        const Outputs any = Multiply(pair, o, Uneven, 0.25);
        ExpectClose(any.out, any.terms, OfSums());
        if (HasFailure()) return;
      }
    }
  }
}

// In layout `way` of kWays. Scales: 0 is one for each operand, 1 blocks along the sum of both, 2 and 3 of one, with
// squares in the other.
constexpr std::string_view kWays[] = {"nn", "nt", "tn", "tt"};
Options InLayout(int way, int scales, int64_t m, int64_t n, int64_t k) {
  Options o{.m = m, .n = n, .k = k, .transpose_a = way >= 2, .transpose_b = way % 2 == 1};
  if (scales == 0) {
    o.format_a = Fp8Format::kE5M2;
    return o;
  }
  o.blocks_a = scales == 3 ? Fp8Blocks::kSquare : o.transpose_a ? Fp8Blocks::kColumn : Fp8Blocks::kRow;
  o.blocks_b = scales == 2 ? Fp8Blocks::kSquare : o.transpose_b ? Fp8Blocks::kRow : Fp8Blocks::kColumn;
  return o;
}

// Among them dx = dy W and dW = dy^T x, which is added to others. Tiles of transposed codes end within them.
TEST_F(Fp8OnGpu, ProductsOfTheLibraryInEveryLayoutAreThoseOfTheCpu) {
  constexpr int64_t kSizesOfLibrary[][3] = {{48, 272, 128}, {144, 16, 5 * 128}, {272, 144, 3 * 128}};
  for (int way = 0; way < 4; ++way) {
    for (int scales = 0; scales < 4; ++scales) {
      Gpu gpu;
      Options o;
      for (const auto& [m, n, k] : kSizesOfLibrary) {
        o = InLayout(way, scales, m, n, scales == 0 ? k + 16 : k);
        o.accumulate = way >= 2, o.bias = way == 3, o.out = o.bias_type = way == 2 ? DType::kF32 : DType::kBF16;
        SCOPED_TRACE(o.Text());
        Pair pair(0, &gpu.device);
        const Outputs got = Multiply(pair, o, Whole, 1);
        EXPECT_TRUE(Pair::Read(got.out.gpu) == BitsOf(got.out.cpu)) << "the product differs";
        const Outputs any = Multiply(pair, o, Uneven, 0.25);
        ExpectClose(any.out, any.terms, OfSums());
        if (HasFailure()) return;
      }
      ExpectOfLibrary(gpu, o, kWays[way]);
    }
  }
}

#ifdef TWOFOLD_EMULATED_CUDA
// Codes are transposed and scales arranged by one kernel each, where they must be.
TEST_F(Fp8OnGpu, OnlyWhatLiesOtherwiseIsCopiedForTheLibrary) {
  constexpr int kCopies[4][4] = {{1, 2, 2, 2}, {0, 1, 1, 1}, {1, 1, 2, 2}, {1, 2, 2, 2}};  // by layout and scales
  for (int way = 0; way < 4; ++way) {
    for (int scales = 0; scales < 4; ++scales) {
      if (!IsHopper() && scales != 0) continue;
      const Options o = InLayout(way, scales, 32, 48, 128);
      SCOPED_TRACE(o.Text());
      Gpu gpu;
      Pair pair(0, &gpu.device);
      Multiply(pair, o, Whole, 1);
      EXPECT_EQ(pair.launches, LiesAlongSum() ? kCopies[way][scales] : 0);
    }
  }
}

// A GPU whose library has no algorithm for products of FP8 operands, or one that does not start.
struct Refusing : Gpu {
  explicit Refusing(const char* how) : Gpu(After(how)) {}
  ~Refusing() { unsetenv("TWOFOLD_EMULATED_FP8"); }
  static CudaDevice::Options After(const char* how) {
    setenv("TWOFOLD_EMULATED_FP8", how, 1);
    return {};
  }
};

// The second time, only our own kernel is launched; if the library found no algorithm, so is it the first time.
TEST_F(Fp8OnGpu, WhatTheLibraryRefusesIsComputedByOurKernelsAndNotAskedForAgain) {
  for (const char* how : {"NO_ALGORITHM", "FAILS"}) {
    for (int way = 0; way < 3; ++way) {
      for (const int scales : {0, way == 2 ? 1 : 2}) {
        Options o = InLayout(way, scales, 32, 48, 256);
        o.accumulate = way == 2, o.bias = way == 1;
        SCOPED_TRACE(StrCat(how, ": ", o.Text()));
        Gpu own({.own_fp8 = true});
        Refusing gpu(how);
        Pair ours(0, &own.device), first(0, &gpu.device), second(0, &gpu.device);
        Multiply(ours, o, Whole, 1);
        for (Pair* pair : {&first, &second}) {
          const Outputs got = Multiply(*pair, o, Whole, 1);
          EXPECT_TRUE(Pair::Read(got.out.gpu) == BitsOf(got.out.cpu)) << "the product differs";
        }
        EXPECT_EQ(ours.launches, 1);
        EXPECT_EQ(second.launches, ours.launches);
        const bool asked = scales == 0 || IsHopper(), copies = LiesAlongSum() && (way != 1 || scales != 0),
                   copied = std::string_view(how) == "FAILS" && asked && copies;
        if (copied)
          EXPECT_GT(first.launches, ours.launches);
        else
          EXPECT_EQ(first.launches, ours.launches);
        if (asked) {
          EXPECT_THAT(Told(gpu, NameOf(o, kWays[way])), testing::StartsWith("own kernels (the emulation "));
        }
      }
    }
  }
}
#endif

TEST_F(Fp8OnGpu, NotesSayWhoseKernelsRan) {
  for (const Options& o : kForward) {
    SCOPED_TRACE(o.Text());
    Gpu gpu, own({.own_fp8 = true});
    Pair pair(0, &gpu.device), other(0, &own.device);
    const Outputs got = Multiply(pair, o, Whole, 1), want = Multiply(other, o, Whole, 1);
    ExpectOfLibrary(gpu, o, "nt");
    EXPECT_EQ(Told(own, NameOf(o, "nt")), "own kernels (cuda.fp8: OWN)");
    EXPECT_TRUE(Pair::Read(got.out.gpu) == Pair::Read(want.out.gpu)) << "they differ";
  }
  Gpu gpu;
  Pair pair(0, &gpu.device);
  Multiply(pair, {.m = 16, .n = 16, .k = 8}, Whole, 1);
  EXPECT_THAT(Told(gpu, "matmul_fp8_nt"), testing::StartsWith("own kernels ("));
#ifdef TWOFOLD_EMULATED_CUDA
  EXPECT_THAT(Told(gpu, "matmul_fp8_nt"), testing::HasSubstr("multiples of 16"));
#endif
}

TEST_F(Fp8OnGpu, EpiloguesBehindTheLibraryAreThoseOfTheCpu) {
  const auto small = [](Lab& lab, int64_t rows, int64_t columns) {
    return ValuesOf(lab.Normal({rows, columns}, DType::kF64, 0.2));
  };
  Gpu gpu;
  for (Options o : kForward) {
    for (const DType out : kNarrow) {
      for (const auto epilogue : {ops::MatMul::kGelu, ops::MatMul::kGeluSlope}) {
        o.out = o.bias_type = out, o.epilogue = epilogue, o.bias = epilogue == ops::MatMul::kGelu;
        SCOPED_TRACE(o.Text());
        Pair pair(0, &gpu.device);
        const Outputs got = Multiply(pair, o, small, 0.25);
        const double terms = 10 + 0.2 * static_cast<double>(o.k), both = 4 * HalfUnit(out);
        ExpectClose(got.out, terms, both + OfSums());
        if (epilogue == ops::MatMul::kGelu) ExpectClose(got.aux, terms, both + OfSums());
      }
    }
    ExpectOfLibrary(gpu, o, "gelu");
    ExpectOfLibrary(gpu, o, "gelu_slope");
    if (HasFailure()) return;
  }
}

}  // namespace fp8_test
}  // namespace twofold
