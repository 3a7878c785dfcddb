// Convolutions against plain loops, in every type, with and without margins, strides and whole panels of channels.
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace convolution_test {

struct Size {
  int64_t images, height, width, in, kernel, out, stride, padding;
  int64_t kernel_width = 0;  // as high, unless stated
  int64_t kw() const { return kernel_width > 0 ? kernel_width : kernel; }
  int64_t rows() const { return (height + 2 * padding - kernel) / stride + 1; }
  int64_t columns() const { return (width + 2 * padding - kw()) / stride + 1; }
  Shape x() const { return {images, height, width, in}; }
  Shape w() const { return {kernel, kw(), in, out}; }
  Shape y() const { return {images, rows(), columns(), out}; }
  int64_t products() const { return images * rows() * columns() * out * kernel * kw() * in; }
};

constexpr Size kSizes[] = {
    {1, 1, 1, 1, 1, 1, 1, 0},    {2, 5, 6, 3, 3, 16, 1, 1},   // a stem: one whole panel
    {2, 8, 8, 16, 3, 32, 2, 1},                               // halves the image
    {1, 7, 7, 4, 1, 40, 2, 0},                                // a projection: pixels between the strides reach nothing
    {2, 4, 4, 5, 3, 70, 1, 1},                                // four panels at a time, and one that is not whole
    {1, 6, 29, 2, 3, 17, 1, 1},                               // rows longer than a tile
    {1, 9, 8, 3, 7, 5, 2, 3},    {2, 6, 5, 2, 3, 3, 3, 0},    // the last rows of the image are not reached
    {1, 5, 5, 2, 2, 4, 1, 2},                                 // whole outputs from the margin alone
    {1, 4, 9, 3, 1, 8, 1, 0, 3},                              // a kernel that is not square
    {70, 3, 3, 1, 3, 1, 1, 1},   {1, 40, 70, 1, 3, 2, 1, 1},  // more pixels than one tile of weights sums at once
    {3, 64, 64, 40, 3, 1, 1, 1},                              // more images than are copied at once
};

// f(x's element, w's element, y's element) for every product.
template <class F>
void ForProducts(const Size& s, F f) {
  for (int64_t i = 0; i < s.images; ++i)
    for (int64_t r = 0; r < s.rows(); ++r)
      for (int64_t c = 0; c < s.columns(); ++c)
        for (int64_t a = 0; a < s.kernel; ++a)
          for (int64_t b = 0; b < s.kw(); ++b) {
            const int64_t row = r * s.stride + a - s.padding, column = c * s.stride + b - s.padding;
            if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
            for (int64_t ch = 0; ch < s.in; ++ch)
              for (int64_t o = 0; o < s.out; ++o)
                f(At(((i * s.height + row) * s.width + column) * s.in + ch),
                  At(((a * s.kw() + b) * s.in + ch) * s.out + o),
                  At(((i * s.rows() + r) * s.columns() + c) * s.out + o));
          }
}

std::string Text(const char* name, DType t, const Size& s) {
  return std::string(name) + " " + Name(t) + " " + s.x().ToString() + " * " + s.w().ToString() + " stride " +
         std::to_string(s.stride) + " padding " + std::to_string(s.padding);
}

template <class F>
void ForEachCase(const char* name, F run) {
  for (DType t : kFloats) {
    for (const Size& s : kSizes) {
      if (s.products() > 1000000 && t != DType::kF32) continue;  // what is special of large ones is so in any type
      Verify(Text(name, t, s), [&](Lab& lab) { return run(lab, t, s); });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Terms are added up one after the other, each time to a sum that has grown as the root of their number, and rounded:
// together an error that grows as the number.
double Scale(int64_t terms) { return 2 + static_cast<double>(terms) / 4; }

TEST(Convolution, Forward) {
  for (const bool with_bias : {false, true}) {
    ForEachCase("conv_forward", [&](Lab& lab, DType t, const Size& s) {
      const Tensor x = lab.Normal(s.x(), t), w = lab.Normal(s.w(), t), y = lab.Blank(s.y(), t);
      const Tensor bias = with_bias ? lab.Normal({s.out}, t) : Tensor();
      Values want(At(y.numel()));
      const Values xs = ValuesOf(x), ws = ValuesOf(w), bs = with_bias ? ValuesOf(bias) : Values(At(s.out));
      for (size_t i = 0; i < want.size(); ++i) want[i] = bs[i % At(s.out)];
      ForProducts(s, [&](size_t i, size_t j, size_t k) { want[k] += xs[i] * ws[j]; });
      lab.Run(ops::ConvolutionForward{.x = x, .w = w, .bias = bias, .y = y, .stride = s.stride, .padding = s.padding});
      return std::vector<Expected>{{y, want, Scale(s.kernel * s.kw() * s.in), Wide(t)}};
    });
  }
}

TEST(Convolution, Backward) {
  ForEachCase("conv_backward", [](Lab& lab, DType t, const Size& s) {
    const Tensor dy = lab.Normal(s.y(), t), w = lab.Normal(s.w(), t), dx = lab.Blank(s.x(), t);
    Values want(At(dx.numel()));
    const Values dys = ValuesOf(dy), ws = ValuesOf(w);
    ForProducts(s, [&](size_t i, size_t j, size_t k) { want[i] += dys[k] * ws[j]; });
    lab.Run(ops::ConvolutionBackward{.dy = dy, .w = w, .dx = dx, .stride = s.stride, .padding = s.padding});
    return std::vector<Expected>{{dx, want, Scale(s.kernel * s.kw() * s.out), Wide(t)}};
  });
}

TEST(Convolution, Weights) {
  for (const bool accumulate : {false, true}) {
    for (DType out : kFloats) {
      ForEachCase("conv_weights", [&](Lab& lab, DType t, const Size& s) {
        const Tensor dy = lab.Normal(s.y(), t), x = lab.Normal(s.x(), t), dw = lab.Output(s.w(), out, accumulate);
        Values want = accumulate ? ValuesOf(dw) : Values(At(dw.numel()));
        const Values dys = ValuesOf(dy), xs = ValuesOf(x);
        ForProducts(s, [&](size_t i, size_t j, size_t k) { want[j] += dys[k] * xs[i]; });
        lab.Run(ops::ConvolutionWeights{
            .dy = dy, .x = x, .dw = dw, .stride = s.stride, .padding = s.padding, .accumulate = accumulate});
        const DType computed = t == DType::kF64 && (out == DType::kF64 || !accumulate) ? DType::kF64 : DType::kF32;
        return std::vector<Expected>{{dw, want, Scale(s.images * s.rows() * s.columns()), computed}};
      });
    }
  }
}

// The order of every sum is fixed by the shapes: the number of threads does not show.
TEST(Convolution, ThreadsDoNotShow) {
  const Size s{6, 16, 16, 24, 3, 48, 2, 1};
  std::vector<std::string> first;
  for (const int threads : {1, 2, 5}) {
    Lab lab(threads, 0);
    lab.rng.seed(17);
    const Tensor x = lab.Normal(s.x(), DType::kF32), w = lab.Normal(s.w(), DType::kF32);
    const Tensor dy = lab.Normal(s.y(), DType::kF32), y = lab.Blank(s.y(), DType::kF32);
    const Tensor dx = lab.Blank(s.x(), DType::kF32), dw = lab.Blank(s.w(), DType::kF32);
    lab.Run(ops::ConvolutionForward{.x = x, .w = w, .y = y, .stride = 2, .padding = 1});
    lab.Run(ops::ConvolutionBackward{.dy = dy, .w = w, .dx = dx, .stride = 2, .padding = 1});
    lab.Run(ops::ConvolutionWeights{.dy = dy, .x = x, .dw = dw, .stride = 2, .padding = 1});
    const std::vector<std::string> bits = {BitsOf(y), BitsOf(dx), BitsOf(dw)};
    if (first.empty()) first = bits;
    EXPECT_TRUE(bits == first) << threads << " threads";
  }
}

}  // namespace convolution_test
}  // namespace twofold
