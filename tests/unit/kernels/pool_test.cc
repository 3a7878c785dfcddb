// Pooling against plain loops.
#include <cmath>
#include <limits>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace pool_test {

struct Size {
  int64_t images, height, width, channels, size, stride, padding;
  int64_t rows() const { return (height + 2 * padding - size) / stride + 1; }
  int64_t columns() const { return (width + 2 * padding - size) / stride + 1; }
  Shape x() const { return {images, height, width, channels}; }
  Shape y() const { return {images, rows(), columns(), channels}; }
};
constexpr Size kSizes[] = {{1, 1, 1, 1, 1, 1, 0},    {2, 6, 8, 3, 2, 2, 0}, {2, 9, 7, 17, 3, 2, 1},
                           {1, 5, 5, 1030, 2, 1, 1}, {3, 7, 5, 4, 3, 3, 0}, {1, 4, 4, 2, 4, 1, 2}};

template <class F>
void ForEachCase(const char* name, F run) {
  for (DType t : kFloats) {
    for (const Size& s : kSizes) {
      Verify(std::string(name) + " " + Name(t) + " " + s.x().ToString() + " size " + std::to_string(s.size),
             [&](Lab& lab) { return run(lab, t, s); });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// The element of x that each element of y takes, and which of its window that is.
struct Chosen {
  std::vector<size_t> at;
  Values which;
};
Chosen Choose(const Size& s, const Values& x) {
  Chosen out;
  for (int64_t i = 0; i < s.images; ++i)
    for (int64_t r = 0; r < s.rows(); ++r)
      for (int64_t c = 0; c < s.columns(); ++c)
        for (int64_t ch = 0; ch < s.channels; ++ch) {
          double best = -std::numeric_limits<double>::infinity();
          size_t at = 0;
          int64_t which = -1;
          for (int64_t a = 0; a < s.size; ++a)
            for (int64_t b = 0; b < s.size; ++b) {
              const int64_t row = r * s.stride - s.padding + a, column = c * s.stride - s.padding + b;
              if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
              const size_t from = At(((i * s.height + row) * s.width + column) * s.channels + ch);
              if (x[from] > best) best = x[from], at = from, which = a * s.size + b;
            }
          out.at.push_back(at);
          out.which.push_back(static_cast<double>(which));
        }
  return out;
}

TEST(Pool, LargestForward) {
  ForEachCase("max_pool_forward", [](Lab& lab, DType t, const Size& s) {
    const Tensor x = lab.Normal(s.x(), t), y = lab.Blank(s.y(), t), chosen = lab.Blank(s.y(), DType::kU8);
    const Values xs = ValuesOf(x);
    const Chosen want = Choose(s, xs);
    Values values;
    for (size_t at : want.at) values.push_back(xs[at]);
    lab.Run(ops::MaxPoolForward{
        .x = x, .y = y, .chosen = chosen, .size = s.size, .stride = s.stride, .padding = s.padding});
    EXPECT_EQ(ValuesOf(chosen), want.which);
    return std::vector<Expected>{{y, values, 0, Wide(t)}};
  });
}

TEST(Pool, LargestBackward) {
  ForEachCase("max_pool_backward", [](Lab& lab, DType t, const Size& s) {
    const Values xs = ValuesOf(lab.Normal(s.x(), DType::kF64));
    const Chosen taken = Choose(s, xs);
    const Tensor dy = lab.Normal(s.y(), t), dx = lab.Blank(s.x(), t), chosen = lab.Of(s.y(), DType::kU8, taken.which);
    Values want(xs.size());
    const Values d = ValuesOf(dy);
    for (size_t i = 0; i < d.size(); ++i) want[taken.at[i]] += d[i];
    lab.Run(ops::MaxPoolBackward{
        .dy = dy, .chosen = chosen, .dx = dx, .size = s.size, .stride = s.stride, .padding = s.padding});
    return std::vector<Expected>{{dx, want, 8, Wide(t)}};
  });
}

TEST(Pool, LargestKeepsNaN) {
  Lab lab(1, 0);
  const double nan = std::nan("");
  const Tensor x = lab.Of({1, 2, 2, 2}, DType::kF32, {1, nan, 2, 5, nan, 6, 3, 7});
  const Tensor y = lab.Blank({1, 1, 1, 2}, DType::kF32), chosen = lab.Blank({1, 1, 1, 2}, DType::kU8);
  lab.Run(ops::MaxPoolForward{.x = x, .y = y, .chosen = chosen});
  EXPECT_TRUE(std::isnan(ValuesOf(y)[0]));
  EXPECT_TRUE(std::isnan(ValuesOf(y)[1]));
  EXPECT_EQ(ValuesOf(chosen), (Values{2, 0}));
}

TEST(Pool, Average) {
  ForEachCase("average_pool", [](Lab& lab, DType t, const Size& s) {
    const Tensor x = lab.Normal(s.x(), t), y = lab.Blank({s.images, s.channels}, t);
    const Tensor dy = lab.Normal({s.images, s.channels}, t), dx = lab.Blank(s.x(), t);
    const Values xs = ValuesOf(x), d = ValuesOf(dy);
    const double pixels = static_cast<double>(s.height * s.width);
    Values mean(At(s.images * s.channels)), spread(xs.size());
    for (size_t i = 0; i < xs.size(); ++i) {
      const size_t at = i / At(s.height * s.width * s.channels) * At(s.channels) + i % At(s.channels);
      mean[at] += xs[i] / pixels;
      spread[i] = d[at] / pixels;
    }
    lab.Run(ops::AveragePoolForward{.x = x, .y = y});
    lab.Run(ops::AveragePoolBackward{.dy = dy, .dx = dx});
    return std::vector<Expected>{{y, mean, 2, Wide(t)}, {dx, spread, 1, Wide(t)}};
  });
}

TEST(Pool, AffineOfPixelsAndAddRelu) {
  for (DType t : kFloats) {
    for (const int64_t n : {1, 17, 1500}) {
      Verify("affine " + Name(t), [&](Lab& lab) {
        const Tensor pixels = lab.Ids(n, DType::kU8, 256), out = lab.Blank({n}, t);
        Values want = ValuesOf(pixels);
        for (double& v : want) v = v / 127.5 - 1;
        lab.Run(ops::Affine{.in = pixels, .out = out, .scale = 1 / 127.5, .shift = -1});
        const Tensor a = lab.Normal({n}, t), b = lab.Normal({n}, t), y = lab.Blank({n}, t);
        const Values as = ValuesOf(a), bs = ValuesOf(b);
        Values sum;
        for (size_t i = 0; i < as.size(); ++i) sum.push_back(std::max(as[i] + bs[i], 0.0));
        lab.Run(ops::AddRelu{.a = a, .b = b, .out = y});
        return std::vector<Expected>{{out, want, 1, Wide(t)}, {y, sum, 1, Wide(t)}};
      });
    }
  }
}

}  // namespace pool_test
}  // namespace twofold
