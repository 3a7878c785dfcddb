// Batch normalisation and its neighbours against plain sums in double.
#include <cmath>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace batch_norm_test {

struct Size {
  int64_t rows, channels;
};
// One channel, channels that share wide rows, more channels than a piece holds, more rows than one slab or block.
constexpr Size kSizes[] = {{1, 1}, {2, 3}, {300, 1}, {77, 16}, {5000, 16}, {40, 65}, {33, 600}, {6, 1100}, {3, 2049}};

template <class F>
void ForEachCase(const char* name, F run) {
  for (DType t : kFloats) {
    for (Size s : kSizes) {
      Verify(std::string(name) + " " + Name(t) + " " + std::to_string(s.rows) + "x" + std::to_string(s.channels),
             [&](Lab& lab) { return run(lab, t, s.rows, s.channels); });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Rows with a mean far from zero: squares of the values themselves would cancel.
Tensor Shifted(Lab& lab, const Shape& shape, DType t) {
  Values values = ValuesOf(lab.Normal(shape, t));
  for (double& v : values) v += 3;
  return lab.Of(shape, t, values);
}

struct Moments {
  Values mean, squares;
};
Moments MomentsOf(const Values& x, int64_t channels) {
  Moments m{Values(At(channels)), Values(At(channels))};
  const double rows = static_cast<double>(x.size()) / static_cast<double>(channels);
  for (size_t i = 0; i < x.size(); ++i) m.mean[i % At(channels)] += x[i] / rows;
  for (size_t i = 0; i < x.size(); ++i) {
    const double away = x[i] - m.mean[i % At(channels)];
    m.squares[i % At(channels)] += away * away;
  }
  return m;
}
TEST(BatchNorm, Statistics) {
  ForEachCase("batch_norm_statistics", [](Lab& lab, DType t, int64_t rows, int64_t channels) {
    const Tensor x = Shifted(lab, {rows, channels}, t), statistics = lab.Blank({2, channels}, Wide(t));
    lab.Run(ops::BatchNormStatistics{.x = x, .statistics = statistics});
    const Moments m = MomentsOf(ValuesOf(x), channels);
    return std::vector<Expected>{
        {statistics.Slice(0, channels), m.mean, 4, Wide(t)},
        {statistics.Slice(channels, channels), m.squares, 4 + static_cast<double>(rows) / 4, Wide(t)}};
  });
}

// The type of the running statistics: wider than the rest in the case of BF16.
DType Kept(DType t) { return t == DType::kBF16 ? DType::kF64 : Wide(t); }

// Ranks' parts put together give the statistics of all rows.
TEST(BatchNorm, FinishJoinsParts) {
  for (const int64_t parts : {1, 2, 3}) {
    ForEachCase("batch_norm_finish", [parts](Lab& lab, DType t, int64_t rows, int64_t channels) {
      const DType wide = Wide(t);
      const Tensor x = Shifted(lab, {parts * rows, channels}, wide), all = lab.Blank({parts, 2, channels}, wide);
      for (int64_t i = 0; i < parts; ++i) {
        lab.Run(ops::BatchNormStatistics{.x = x.Slice(i * rows * channels, Shape{rows, channels}),
                                         .statistics = all.Slice(i * 2 * channels, Shape{2, channels})});
      }
      const Tensor running_mean = lab.Normal({channels}, Kept(t)), running_variance = lab.Positive({channels}, Kept(t));
      const Values old_mean = ValuesOf(running_mean), old_variance = ValuesOf(running_variance);
      const Tensor mean = lab.Blank({channels}, wide), rstd = lab.Blank({channels}, wide);
      lab.Run(ops::BatchNormFinish{.parts = all,
                                   .running_mean = running_mean,
                                   .running_variance = running_variance,
                                   .mean = mean,
                                   .rstd = rstd,
                                   .rows = rows,
                                   .momentum = 0.25,
                                   .eps = 1e-3});
      const Moments m = MomentsOf(ValuesOf(x), channels);
      const double n = static_cast<double>(rows * parts);
      Values want_rstd, want_mean, want_variance;
      for (size_t c = 0; c < m.mean.size(); ++c) {
        want_rstd.push_back(1 / std::sqrt(m.squares[c] / n + 1e-3));
        want_mean.push_back(0.75 * old_mean[c] + 0.25 * m.mean[c]);
        want_variance.push_back(0.75 * old_variance[c] + 0.25 * m.squares[c] / std::max(n - 1, 1.0));
      }
      return std::vector<Expected>{{mean, m.mean, 4, wide},
                                   {rstd, want_rstd, 64, wide},
                                   {running_mean, want_mean, 4, wide},
                                   {running_variance, want_variance, 4, wide}};
    });
  }
}

TEST(BatchNorm, FinishWithoutPartsTakesTheRunningStatistics) {
  ForEachCase("batch_norm_finish", [](Lab& lab, DType t, int64_t, int64_t channels) {
    const DType wide = Wide(t);
    const Tensor running_mean = lab.Normal({channels}, Kept(t)), running_variance = lab.Positive({channels}, Kept(t));
    const Tensor mean = lab.Blank({channels}, wide), rstd = lab.Blank({channels}, wide);
    const Values m = ValuesOf(running_mean), v = ValuesOf(running_variance);
    lab.Run(ops::BatchNormFinish{
        .running_mean = running_mean, .running_variance = running_variance, .mean = mean, .rstd = rstd, .eps = 1e-5});
    Values want;
    for (double x : v) want.push_back(1 / std::sqrt(x + 1e-5));
    return std::vector<Expected>{
        {mean, m, 1, wide}, {rstd, want, 4, wide}, {running_mean, m, 0, wide}, {running_variance, v, 0, wide}};
  });
}

TEST(BatchNorm, Forward) {
  for (const bool relu : {false, true}) {
    ForEachCase("batch_norm_forward", [relu](Lab& lab, DType t, int64_t rows, int64_t channels) {
      const Tensor x = lab.Normal({rows, channels}, t), y = lab.Blank({rows, channels}, t);
      const Tensor gamma = lab.Normal({channels}, t), beta = lab.Normal({channels}, t);
      const Tensor mean = lab.Normal({channels}, Wide(t)), rstd = lab.Positive({channels}, Wide(t));
      lab.Run(ops::BatchNormForward{
          .x = x, .gamma = gamma, .beta = beta, .mean = mean, .rstd = rstd, .y = y, .relu = relu});
      const Values xs = ValuesOf(x), g = ValuesOf(gamma), b = ValuesOf(beta), m = ValuesOf(mean), k = ValuesOf(rstd);
      Values want(xs.size());
      for (size_t i = 0; i < xs.size(); ++i) {
        const size_t c = i % At(channels);
        want[i] = g[c] * (xs[i] - m[c]) * k[c] + b[c];
        if (relu) want[i] = std::max(want[i], 0.0);
      }
      return std::vector<Expected>{{y, want, 8, Wide(t)}};
    });
  }
}

struct Gradient {
  Tensor dy, x, y, mean, rstd;
  Values g, xhat;
};
Gradient MakeGradient(Lab& lab, DType t, int64_t rows, int64_t channels, bool relu) {
  Gradient d{lab.Normal({rows, channels}, t), lab.Normal({rows, channels}, t),
             relu ? lab.Normal({rows, channels}, t) : Tensor(), lab.Normal({channels}, Wide(t)),
             lab.Positive({channels}, Wide(t))};
  const Values xs = ValuesOf(d.x), ys = relu ? ValuesOf(d.y) : Values(), m = ValuesOf(d.mean), k = ValuesOf(d.rstd);
  d.g = ValuesOf(d.dy);
  for (size_t i = 0; i < xs.size(); ++i) {
    if (relu && ys[i] <= 0) d.g[i] = 0;
    d.xhat.push_back((xs[i] - m[i % At(channels)]) * k[i % At(channels)]);
  }
  return d;
}

TEST(BatchNorm, Sums) {
  for (const bool relu : {false, true}) {
    ForEachCase("batch_norm_sums", [relu](Lab& lab, DType t, int64_t rows, int64_t channels) {
      const Gradient d = MakeGradient(lab, t, rows, channels, relu);
      const Tensor sums = lab.Blank({2, channels}, Wide(t));
      lab.Run(ops::BatchNormSums{.dy = d.dy, .x = d.x, .y = d.y, .mean = d.mean, .rstd = d.rstd, .sums = sums});
      Values want(At(2 * channels));
      for (size_t i = 0; i < d.g.size(); ++i) {
        want[i % At(channels)] += d.g[i];
        want[At(channels) + i % At(channels)] += d.g[i] * d.xhat[i];
      }
      return std::vector<Expected>{{sums, want, 4 * std::sqrt(static_cast<double>(rows)) + 8, Wide(t)}};
    });
  }
}

TEST(BatchNorm, BackwardAlsoInPlace) {
  for (const bool relu : {false, true}) {
    for (const bool in_place : {false, true}) {
      ForEachCase("batch_norm_backward", [=](Lab& lab, DType t, int64_t rows, int64_t channels) {
        const Gradient d = MakeGradient(lab, t, rows, channels, relu);
        const Tensor gamma = lab.Normal({channels}, t), sums = lab.Normal({2, channels}, Wide(t));
        const Tensor dx = in_place ? d.dy : lab.Blank({rows, channels}, t);
        const int64_t all = 2 * rows;
        lab.Run(ops::BatchNormBackward{.dy = d.dy,
                                       .x = d.x,
                                       .y = d.y,
                                       .gamma = gamma,
                                       .mean = d.mean,
                                       .rstd = d.rstd,
                                       .sums = sums,
                                       .dx = dx,
                                       .rows = all});
        const Values gs = ValuesOf(gamma), k = ValuesOf(d.rstd), s = ValuesOf(sums);
        Values want(d.g.size());
        for (size_t i = 0; i < want.size(); ++i) {
          const size_t c = i % At(channels);
          want[i] = gs[c] * k[c] * (d.g[i] - (s[c] + d.xhat[i] * s[At(channels) + c]) / static_cast<double>(all));
        }
        return std::vector<Expected>{{dx, want, 16, Wide(t)}};
      });
    }
  }
}

TEST(BatchNorm, ThreadsDoNotShow) {
  std::vector<std::string> first;
  for (const int threads : {1, 2, 5}) {
    Lab lab(threads, 0);
    lab.rng.seed(17);
    const Tensor x = lab.Normal({9000, 24}, DType::kF32), dy = lab.Normal({9000, 24}, DType::kF32);
    const Tensor statistics = lab.Blank({2, 24}, DType::kF32), sums = lab.Blank({2, 24}, DType::kF32);
    const Tensor mean = lab.Normal({24}, DType::kF32), rstd = lab.Positive({24}, DType::kF32);
    lab.Run(ops::BatchNormStatistics{.x = x, .statistics = statistics});
    lab.Run(ops::BatchNormSums{.dy = dy, .x = x, .mean = mean, .rstd = rstd, .sums = sums});
    const std::vector<std::string> bits = {BitsOf(statistics), BitsOf(sums)};
    if (first.empty()) first = bits;
    EXPECT_TRUE(bits == first) << threads << " threads";
  }
}

}  // namespace batch_norm_test
}  // namespace twofold
