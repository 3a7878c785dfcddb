// Products of FP8 operands that cuBLASLt is asked for, against the CPU.
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
// The emulated library does what it is asked for. The emulated GPU is Hopper or, with TWOFOLD_EMULATED_CAPABILITY=100,
// Blackwell.
bool HasLayouts() { return cuda::CapabilityOf(0).major == 10; }
void ExpectOfLibrary(const Gpu& gpu, const Options& o, std::string_view kind) {
  const std::string kernel = NameOf(o, kind);
#ifdef TWOFOLD_EMULATED_CUDA
  const bool forward = !o.transpose_a && o.transpose_b, blocks = o.blocks_a != Fp8Blocks::kTensor;
  if (blocks ? forward && !HasLayouts() : forward || HasLayouts()) {
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

// A gradient of the input, and one of the weight, which is added to others.
TEST_F(Fp8OnGpu, BackwardProductsOfTheLibraryAreThoseOfTheCpu) {
  for (const bool weight : {false, true}) {
    for (const bool blocks : {false, true}) {
      const Options o{.m = 48,
                      .n = 144,
                      .k = 272,
                      .transpose_a = weight,
                      .transpose_b = false,
                      .accumulate = weight,
                      .blocks_a = !blocks  ? Fp8Blocks::kTensor
                                  : weight ? Fp8Blocks::kColumn
                                           : Fp8Blocks::kRow,
                      .blocks_b = !blocks  ? Fp8Blocks::kTensor
                                  : weight ? Fp8Blocks::kColumn
                                           : Fp8Blocks::kSquare,
                      .format_a = blocks ? Fp8Format::kE4M3 : Fp8Format::kE5M2,
                      .out = weight ? DType::kF32 : DType::kBF16};
      SCOPED_TRACE(o.Text());
      Gpu gpu;
      Pair pair(0, &gpu.device);
      const Outputs got = Multiply(pair, o, Whole, 1);
      EXPECT_TRUE(Pair::Read(got.out.gpu) == BitsOf(got.out.cpu)) << "the product differs";
      ExpectOfLibrary(gpu, o, weight ? "tn" : "nn");
      const Outputs any = Multiply(pair, o, Uneven, 0.25);
      ExpectClose(any.out, any.terms, OfSums());
    }
  }
}

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
