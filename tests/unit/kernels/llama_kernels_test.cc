// The kernels of Llama-style models: RMS norm, rotary positions, SwiGLU.
#include <cmath>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace llama_kernels_test {

struct Size {
  int64_t rows, columns;
};
constexpr Size kSizes[] = {{1, 1}, {3, 7}, {17, 33}, {129, 65}, {70, 300}, {5, 1100}, {3, 2049}};
constexpr double kEps = 0.01;

std::string Text(const char* name, DType t, Size s) {
  return std::string(name) + " " + Name(t) + " " + std::to_string(s.rows) + "x" + std::to_string(s.columns);
}

template <class F>
void ForEachCase(const char* name, F run) {
  for (DType t : kFloats) {
    for (Size s : kSizes) {
      Verify(Text(name, t, s), [&](Lab& lab) { return run(lab, t, s.rows, s.columns); });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// 1 / sqrt(mean of squares + eps) of each row.
Values Rstd(const Values& x, int64_t rows, int64_t columns) {
  Values rstd;
  for (int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (int64_t j = 0; j < columns; ++j) squares += x[At(r * columns + j)] * x[At(r * columns + j)];
    rstd.push_back(1 / std::sqrt(squares / static_cast<double>(columns) + kEps));
  }
  return rstd;
}

TEST(RmsNorm, Forward) {
  ForEachCase("rms_norm_forward", [](Lab& lab, DType t, int64_t rows, int64_t columns) {
    const Tensor x = lab.Normal({rows, columns}, t), gamma = lab.Normal({columns}, t);
    const Tensor y = lab.Blank(x.shape(), t), rstd = lab.Blank({rows}, Wide(t));
    const Values v = ValuesOf(x), g = ValuesOf(gamma), r = Rstd(v, rows, columns);
    Values want;
    for (size_t i = 0; i < v.size(); ++i) want.push_back(v[i] * r[i / At(columns)] * g[i % At(columns)]);
    lab.Run(ops::RmsNormForward{x, gamma, y, rstd, kEps});
    return std::vector<Expected>{{y, want, 10, t}, {rstd, r, 10, t}};
  });
}

TEST(RmsNorm, Backward) {
  ForEachCase("rms_norm_backward", [](Lab& lab, DType t, int64_t rows, int64_t columns) {
    const Tensor x = lab.Normal({rows, columns}, t), dy = lab.Normal(x.shape(), t), gamma = lab.Normal({columns}, t);
    const Values v = ValuesOf(x), d = ValuesOf(dy), g = ValuesOf(gamma), k = Rstd(v, rows, columns);
    const Tensor rstd = lab.Of({rows}, Wide(t), k), dx = lab.Blank(x.shape(), t);
    Values want;
    for (int64_t r = 0; r < rows; ++r) {
      double mean = 0;
      for (int64_t j = 0; j < columns; ++j)
        mean += d[At(r * columns + j)] * g[At(j)] * v[At(r * columns + j)] * k[At(r)] / static_cast<double>(columns);
      for (int64_t j = 0; j < columns; ++j)
        want.push_back(k[At(r)] * (d[At(r * columns + j)] * g[At(j)] - v[At(r * columns + j)] * k[At(r)] * mean));
    }
    lab.Run(ops::RmsNormBackward{dy, x, gamma, rstd, dx});
    return std::vector<Expected>{{dx, want, 40, t}};
  });
}

TEST(RmsNorm, Weights) {
  for (DType out_type : kFloats) {
    for (bool accumulate : {false, true}) {
      ForEachCase("rms_norm_weights", [&](Lab& lab, DType t, int64_t rows, int64_t columns) {
        const Tensor x = lab.Normal({rows, columns}, t), dy = lab.Normal(x.shape(), t);
        const Values v = ValuesOf(x), d = ValuesOf(dy), k = Rstd(v, rows, columns);
        const Tensor rstd = lab.Of({rows}, Wide(t), k), dgamma = lab.Output({columns}, out_type, accumulate);
        Values want = accumulate ? ValuesOf(dgamma) : Values(At(columns));
        for (size_t i = 0; i < d.size(); ++i) want[i % At(columns)] += d[i] * v[i] * k[i / At(columns)];
        lab.Run(ops::RmsNormWeights{dy, x, rstd, dgamma, accumulate});
        return std::vector<Expected>{{dgamma, want, 10 + 2 * std::sqrt(static_cast<double>(rows)), t}};
      });
    }
  }
}

TEST(SwiGlu, ForwardAndBackward) {
  ForEachCase("swiglu", [](Lab& lab, DType t, int64_t rows, int64_t columns) {
    const Tensor x = lab.Normal({rows, 2 * columns}, t, 3), dy = lab.Normal({rows, columns}, t);
    const Tensor y = lab.Blank(dy.shape(), t), dx = lab.Blank(x.shape(), t), in_place = lab.Copy(x);
    const Values v = ValuesOf(x), d = ValuesOf(dy);
    Values want, dwant(v.size());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < columns; ++j) {
        const size_t gate = At(2 * r * columns + j), up = gate + At(columns), at = At(r * columns + j);
        const double s = 1 / (1 + std::exp(-v[gate]));
        want.push_back(v[gate] * s * v[up]);
        dwant[up] = d[at] * v[gate] * s;
        dwant[gate] = d[at] * v[up] * (s + v[gate] * s * (1 - s));
      }
    }
    lab.Run(ops::SwiGluForward{x, y});
    lab.Run(ops::SwiGluBackward{x, dy, dx});
    lab.Run(ops::SwiGluBackward{in_place, dy, in_place});
    return std::vector<Expected>{{y, want, 10, t}, {dx, dwant, 20, t}, {in_place, dwant, 20, t}};
  });
}

TEST(SwiGlu, LargeGatesAreFinite) {
  Lab lab(1, 0);
  const Tensor x = lab.Of({2, 2}, DType::kF32, {-1000, 2, 1000, 2}), y = lab.Blank({2, 1}, DType::kF32);
  lab.Run(ops::SwiGluForward{x, y});
  EXPECT_EQ(ValuesOf(y), (Values{0, 2000}));
  lab.Run(ops::SwiGluBackward{x, lab.Of({2, 1}, DType::kF32, {1, 1}), x});
  EXPECT_EQ(ValuesOf(x), (Values{0, 0, 2, 1000}));
}

std::vector<double> Frequencies(int64_t half) {
  std::vector<double> f;
  for (int64_t i = 0; i < half; ++i) f.push_back(std::pow(10000, -static_cast<double>(i) / static_cast<double>(half)));
  return f;
}

TEST(Rotary, TurnsTheFirstHeadsAndCopiesTheRest) {
  struct Case {
    int64_t batch, t, heads, half, rest;
  };
  for (DType type : kFloats) {
    for (const Case& c : {Case{1, 1, 1, 1, 0}, Case{2, 5, 3, 4, 7}, Case{1, 40, 2, 33, 64}, Case{1, 3, 1, 1030, 3}}) {
      Verify("rotary " + Name(type) + " " + std::to_string(c.half), [&](Lab& lab) {
        const int64_t dim = 2 * c.half, columns = c.heads * dim + c.rest;
        const Tensor x = lab.Normal({c.batch, c.t, columns}, type), y = lab.Blank(x.shape(), type),
                     in_place = lab.Copy(x);
        const Tensor table = lab.Blank({c.t + 2, dim}, Wide(type)), back = lab.Blank(x.shape(), type);
        const std::vector<double> f = Frequencies(c.half);
        lab.Run(ops::RotaryTable{table, f});
        const Values v = ValuesOf(x);
        Values want = v, table_want;
        for (int64_t p = 0; p < c.t + 2; ++p) {
          for (double w : f) table_want.push_back(std::cos(static_cast<double>(p) * w));
          for (double w : f) table_want.push_back(std::sin(static_cast<double>(p) * w));
        }
        for (int64_t row = 0; row < c.batch * c.t; ++row) {
          for (int64_t head = 0; head < c.heads; ++head) {
            for (int64_t i = 0; i < c.half; ++i) {
              const size_t a = At(row * columns + head * dim + i), b = a + At(c.half);
              const double angle = static_cast<double>(row % c.t) * f[At(i)];
              want[a] = v[a] * std::cos(angle) - v[b] * std::sin(angle);
              want[b] = v[b] * std::cos(angle) + v[a] * std::sin(angle);
            }
          }
        }
        lab.Run(ops::Rotary{x, table, y, c.heads});
        lab.Run(ops::Rotary{in_place, table, in_place, c.heads});
        const Tensor turned = lab.Of(x.shape(), type, want);
        lab.Run(ops::Rotary{turned, table, back, c.heads, true});
        // Turning back what was rounded gives what was rounded, turned back.
        const double rounding = type == DType::kBF16 ? 4e4 : type == DType::kF16 ? 4e3 : 4;
        return std::vector<Expected>{
            {table, table_want, 1, type}, {y, want, 4, type}, {in_place, want, 4, type}, {back, v, rounding, type}};
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Rotary, TurnsByThePositionsThatRowsHave) {
  Lab lab(1, 0);
  const Tensor table = lab.Blank({12, 6}, DType::kF64), x = lab.Normal({2, 4, 7}, DType::kF64),
               y = lab.Blank(x.shape(), x.dtype());
  lab.Run(ops::RotaryTable{table, Frequencies(3)});
  lab.Run(ops::Rotary{.x = x, .table = table, .y = y, .positions = {.block = 2, .blocks = 2, .offset = {2, 8}}});
  const Tensor longer = lab.Of({1, 12, 7}, DType::kF64, Values(84)), turned = lab.Blank(longer.shape(), DType::kF64);
  for (int64_t b = 0; b < 2; ++b) {  // against a whole sequence that has the same rows in these places
    for (int64_t r = 0; r < 4; ++r) {
      const int64_t position = r < 2 ? 2 + r : 6 + r;
      std::copy_n(x.data<double>() + (b * 4 + r) * 7, 7, longer.data<double>() + position * 7);
      lab.Run(ops::Rotary{.x = longer, .table = table, .y = turned});
      for (int64_t c = 0; c < 7; ++c) {
        EXPECT_EQ(y.data<double>()[(b * 4 + r) * 7 + c], turned.data<double>()[position * 7 + c])
            << b << " " << r << " " << c;
      }
    }
  }
}

}  // namespace llama_kernels_test
}  // namespace twofold
