#include <cstdlib>
#include <string>

#include "tests/gpu/against_cpu.h"
#include "tests/gpu/rounding.h"

namespace twofold {
namespace convolution_test {

constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
struct Convolution {
  int64_t images, height, width, in, out, kernel_height, kernel_width, stride, padding;
  int64_t Rows() const { return (height + 2 * padding - kernel_height) / stride + 1; }
  int64_t Columns() const { return (width + 2 * padding - kernel_width) / stride + 1; }
  Shape x() const { return {images, height, width, in}; }
  Shape w() const { return {kernel_height, kernel_width, in, out}; }
  Shape y() const { return {images, Rows(), Columns(), out}; }
};
// The last has so many pixels that their sum is divided into parts.
constexpr Convolution kConvolutions[] = {{1, 1, 1, 1, 1, 1, 1, 1, 0},    {2, 5, 7, 3, 5, 3, 3, 1, 1},
                                         {1, 9, 8, 31, 33, 3, 3, 2, 1},  {2, 6, 6, 8, 65, 1, 1, 1, 0},
                                         {1, 11, 10, 3, 16, 7, 7, 2, 3}, {2, 7, 5, 4, 3, 2, 3, 3, 0},
                                         {1, 4, 4, 16, 8, 1, 1, 2, 0},   {3, 20, 20, 3, 7, 3, 3, 1, 1}};

// By our own kernels, or by the library: on a GPU, whichever of them does a convolution; the emulation has either.
enum class By { kOwn, kLibrary };
class ConvolutionOnGpu : public GpuTest, public ::testing::WithParamInterface<By> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
#ifdef TWOFOLD_EMULATED_CUDA
    setenv("TWOFOLD_EMULATED_CUDNN", GetParam() == By::kLibrary ? "1" : "0", 1);
#else
    if (GetParam() == By::kOwn) GTEST_SKIP() << "only the emulation does without cuDNN by choice";
#endif
  }
  void TearDown() override { unsetenv("TWOFOLD_EMULATED_CUDNN"); }
};
INSTANTIATE_TEST_SUITE_P(By, ConvolutionOnGpu, ::testing::Values(By::kOwn, By::kLibrary), [](const auto& info) {
  return std::string(info.param == By::kOwn ? "OurKernels" : "TheLibrary");
});

TEST_P(ConvolutionOnGpu, Forward) {
  for (DType type : kFloats) {
    for (const Convolution& s : kConvolutions) {
      for (const bool biased : {false, true}) {
        ExpectLikeCpu(type, Rounding(type), [&](Operands& o) -> ops::Op {
          return ops::ConvolutionForward{.x = o.Normal(s.x()),
                                         .w = o.Normal(s.w()),
                                         .bias = biased ? o.Normal({s.out}) : Tensor(),
                                         .y = o.Out(s.y()),
                                         .stride = s.stride,
                                         .padding = s.padding};
        });
      }
    }
  }
}

TEST_P(ConvolutionOnGpu, Backward) {
  for (DType type : kFloats) {
    for (const Convolution& s : kConvolutions) {
      ExpectLikeCpu(type, Rounding(type), [&](Operands& o) -> ops::Op {
        return ops::ConvolutionBackward{
            .dy = o.Normal(s.y()), .w = o.Normal(s.w()), .dx = o.Out(s.x()), .stride = s.stride, .padding = s.padding};
      });
    }
  }
}

TEST_P(ConvolutionOnGpu, WeightsIntoAnyTypeAndAdding) {
  for (DType type : kFloats) {
    for (DType out : kFloats) {
      for (const Convolution& s : kConvolutions) {
        for (const bool accumulate : {false, true}) {
          ExpectLikeCpu(type, Rounding(type, out), [&](Operands& o) -> ops::Op {
            const auto before = [](int64_t i) { return 0.5 * static_cast<double>(i % 11) - 2; };
            return ops::ConvolutionWeights{
                .dy = o.Normal(s.y()),
                .x = o.Normal(s.x()),
                .dw = accumulate ? o.InOut(o.Values(s.w(), before, out)) : o.OutOf(s.w(), out),
                .stride = s.stride,
                .padding = s.padding,
                .accumulate = accumulate};
          });
        }
      }
    }
  }
}

}  // namespace convolution_test
}  // namespace twofold
