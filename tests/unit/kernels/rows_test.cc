// Operations on rows: column sums, tables, layer normalisation, cross-entropy.
#include <cmath>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace rows_test {

struct Size {
  int64_t rows, columns;
};
constexpr Size kSizes[] = {{1, 1}, {3, 7}, {17, 33}, {129, 65}, {70, 300}, {5, 1100}, {3, 2049}};

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

// As ForEachCase, for outputs that may have any float type and may be added to.
template <class F>
void ForEachGradient(const char* name, F run) {
  for (DType t : kFloats) {
    for (DType out : kFloats) {
      for (Size s : kSizes) {
        for (bool accumulate : {false, true}) {
          Verify(Text(name, t, s) + " to " + Name(out) + (accumulate ? " accumulating" : ""),
                 [&](Lab& lab) { return run(lab, t, out, s.rows, s.columns, accumulate); });
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

// Sums of f64 values into a narrower table are made in the type of the table.
DType Narrower(DType a, DType b) { return a == DType::kF64 && b == DType::kF64 ? DType::kF64 : DType::kF32; }
Values Start(const Tensor& out, bool accumulate) { return accumulate ? ValuesOf(out) : Values(At(out.numel())); }

TEST(Rows, ColumnSum) {
  ForEachGradient("column_sum", [](Lab& lab, DType t, DType out_type, int64_t rows, int64_t columns, bool accumulate) {
    const Tensor in = lab.Normal({rows, columns}, t), out = lab.Output({columns}, out_type, accumulate);
    Values want = Start(out, accumulate);
    const Values x = ValuesOf(in);
    for (size_t i = 0; i < x.size(); ++i) want[i % At(columns)] += x[i];
    lab.Run(ops::ColumnSum{in, out, accumulate});
    return std::vector<Expected>{{out, want, 1 + std::sqrt(static_cast<double>(rows)), t}};
  });
}

TEST(Rows, ColumnSumOfManyRowsStaysAccurate) {
  Lab lab(1, 0);
  const Tensor in = lab.Positive({100000, 3}, DType::kF32), out = lab.Blank({3}, DType::kF32);
  Values want(3);
  const Values x = ValuesOf(in);
  for (size_t i = 0; i < x.size(); ++i) want[i % 3] += x[i];
  lab.Run(ops::ColumnSum{in, out});
  for (size_t j = 0; j < 3; ++j) EXPECT_NEAR(ValuesOf(out)[j] / want[j], 1, 5e-6);
}

TEST(Rows, EmbeddingForward) {
  for (DType ids_type : {DType::kI32, DType::kU8}) {
    ForEachCase("embedding_forward", [&](Lab& lab, DType t, int64_t rows, int64_t columns) {
      const Tensor ids = lab.Ids(rows, ids_type, 11), table = lab.Normal({11, columns}, t),
                   out = lab.Blank({rows, columns}, t);
      lab.Run(ops::EmbeddingForward{ids, table, out});
      Values want;
      const Values from = ValuesOf(table);
      for (double id : ValuesOf(ids)) {
        for (int64_t j = 0; j < columns; ++j) want.push_back(from[At(static_cast<int64_t>(id) * columns + j)]);
      }
      EXPECT_EQ(ValuesOf(out), want);
      return std::vector<Expected>{{out, want, 0}};
    });
  }
}

TEST(Rows, EmbeddingBackwardRoundsEachElementOnce) {
  ForEachGradient("embedding_backward", [](Lab& lab, DType t, DType out_type, int64_t rows, int64_t columns,
                                           bool accumulate) {
    const Tensor ids = lab.Ids(rows, rows % 2 == 0 ? DType::kU8 : DType::kI32, 5), dy = lab.Normal({rows, columns}, t);
    const Tensor dtable = lab.Output({5, columns}, out_type, accumulate);
    Values want = Start(dtable, accumulate);
    const Values id = ValuesOf(ids), d = ValuesOf(dy);
    for (int64_t i = 0; i < dy.numel(); ++i) {
      want[At(static_cast<int64_t>(id[At(i / columns)]) * columns + i % columns)] += d[At(i)];
    }
    lab.Run(ops::EmbeddingBackward{ids, dy, dtable, accumulate});
    return std::vector<Expected>{{dtable, want, 1 + std::sqrt(static_cast<double>(rows)), Narrower(t, out_type)}};
  });
}

TEST(Rows, Positions) {
  ForEachGradient("position", [](Lab& lab, DType t, DType out_type, int64_t batch, int64_t columns, bool accumulate) {
    constexpr int64_t kT = 3, kTable = 5;
    const Tensor x = lab.Normal({batch, kT, columns}, t), table = lab.Normal({kTable, columns}, t);
    const Tensor out = lab.Blank(x.shape(), t), in_place = lab.Copy(x);
    const Tensor dtable = lab.Output({kTable, columns}, out_type, accumulate);
    const Values v = ValuesOf(x), p = ValuesOf(table);
    Values sum = v, dwant = Start(dtable, accumulate);
    for (size_t i = 0; i < v.size(); ++i) {
      sum[i] += p[i % At(kT * columns)];
      dwant[i % At(kT * columns)] += v[i];
    }
    lab.Run(ops::PositionForward{x, table, out});
    lab.Run(ops::PositionForward{in_place, table, in_place});
    lab.Run(ops::PositionBackward{x, dtable, accumulate});
    return std::vector<Expected>{
        {out, sum, 1, t}, {in_place, sum, 1, t}, {dtable, dwant, 1 + std::sqrt(static_cast<double>(batch)), t}};
  });
}

// Two chunks of four of a sequence of 12, and of the rows of three such samples those from the first-th on.
TEST(Rows, PositionsOfChunks) {
  ForEachGradient(
      "position of chunks", [](Lab& lab, DType t, DType out_type, int64_t first, int64_t columns, bool accumulate) {
        constexpr int64_t kRows = 7, kTable = 13;
        const ops::IndexMap map{.first = first, .block = 3, .blocks = 2, .offset = {9, 3}};
        const Tensor x = lab.Normal({1, kRows, columns}, t), table = lab.Normal({kTable, columns}, t);
        const Tensor out = lab.Blank(x.shape(), t), dtable = lab.Output({kTable, columns}, out_type, accumulate);
        const Values v = ValuesOf(x), p = ValuesOf(table);
        Values sum = v, dwant = Start(dtable, accumulate);
        for (int64_t r = 0; r < kRows; ++r) {
          const int64_t in_sample = (first + r) % 6, position = in_sample < 3 ? 9 + in_sample : in_sample;
          for (int64_t c = 0; c < columns; ++c) {
            sum[At(r * columns + c)] += p[At(position * columns + c)];
            dwant[At(position * columns + c)] += v[At(r * columns + c)];
          }
        }
        lab.Run(ops::PositionForward{x, table, out, map});
        lab.Run(ops::PositionBackward{x, dtable, accumulate, map});
        return std::vector<Expected>{{out, sum, 1, t}, {dtable, dwant, 2, t}};
      });
}

TEST(Rows, CopyColumns) {
  ForEachGradient(
      "copy_columns", [](Lab& lab, DType t, DType out_type, int64_t rows, int64_t columns, bool accumulate) {
        const Tensor in = lab.Normal({rows, columns + 5}, t), out = lab.Normal({rows, columns + 3}, out_type);
        const Values v = ValuesOf(in);
        Values want = ValuesOf(out);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) {
            double& w = want[At(r * (columns + 3) + 2 + c)];
            w = (accumulate ? w : 0) + v[At(r * (columns + 5) + 4 + c)];
          }
        }
        lab.Run(ops::CopyColumns{in, out, 4, 2, columns, accumulate});
        const bool wide = t == DType::kF64 || out_type == DType::kF64;
        return std::vector<Expected>{{out, want, 1, wide ? DType::kF64 : DType::kF32}};
      });
}

struct Normalised {
  Values mean, rstd, xhat;
};
Normalised Normalise(const Values& x, int64_t rows, int64_t columns, double eps) {
  Normalised n;
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < columns; ++j) mean += x[At(r * columns + j)] / static_cast<double>(columns);
    for (int64_t j = 0; j < columns; ++j)
      variance += std::pow(x[At(r * columns + j)] - mean, 2) / static_cast<double>(columns);
    n.mean.push_back(mean);
    n.rstd.push_back(1 / std::sqrt(variance + eps));
    for (int64_t j = 0; j < columns; ++j) n.xhat.push_back((x[At(r * columns + j)] - mean) * n.rstd.back());
  }
  return n;
}

TEST(Rows, LayerNormForward) {
  ForEachCase("layer_norm_forward", [](Lab& lab, DType t, int64_t rows, int64_t columns) {
    const Tensor x = lab.Normal({rows, columns}, t), gamma = lab.Normal({columns}, t), beta = lab.Normal({columns}, t);
    const Tensor y = lab.Blank(x.shape(), t), mean = lab.Blank({rows}, Wide(t)), rstd = lab.Blank({rows}, Wide(t));
    const double eps = 0.01;  // large enough for single columns, whose variance is 0
    const Normalised n = Normalise(ValuesOf(x), rows, columns, eps);
    Values want;
    for (size_t i = 0; i < n.xhat.size(); ++i) {
      want.push_back(n.xhat[i] * ValuesOf(gamma)[i % At(columns)] + ValuesOf(beta)[i % At(columns)]);
    }
    lab.Run(ops::LayerNormForward{x, gamma, beta, y, mean, rstd, eps});
    return std::vector<Expected>{{y, want, 10, t}, {mean, n.mean, 1, t}, {rstd, n.rstd, 10, t}};
  });
}

TEST(Rows, LayerNormOfShiftedRowsDoesNotCancel) {
  Lab lab(1, 0);
  const int64_t columns = 768;
  Values x;
  for (int64_t j = 0; j < columns; ++j) x.push_back(10000 + static_cast<double>(j % 2));
  const Tensor in = lab.Of({1, columns}, DType::kF32, x), one = lab.Of({columns}, DType::kF32, Values(At(columns), 1));
  const Tensor zero = lab.Of({columns}, DType::kF32, Values(At(columns), 0)), y = lab.Blank({1, columns}, DType::kF32);
  const Tensor mean = lab.Blank({1}, DType::kF32), rstd = lab.Blank({1}, DType::kF32);
  lab.Run(ops::LayerNormForward{in, one, zero, y, mean, rstd});
  EXPECT_NEAR(ValuesOf(rstd)[0], 2, 0.01);
}

TEST(Rows, LayerNormBackward) {
  ForEachCase("layer_norm_backward", [](Lab& lab, DType t, int64_t rows, int64_t columns) {
    const Tensor x = lab.Normal({rows, columns}, t), dy = lab.Normal(x.shape(), t), gamma = lab.Normal({columns}, t);
    const Normalised n = Normalise(ValuesOf(x), rows, columns, 0.01);
    const Tensor mean = lab.Of({rows}, Wide(t), n.mean), rstd = lab.Of({rows}, Wide(t), n.rstd),
                 dx = lab.Blank(x.shape(), t);
    const Values d = ValuesOf(dy), g = ValuesOf(gamma);
    Values want;
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0, sum_x = 0;
      for (int64_t j = 0; j < columns; ++j) {
        sum += d[At(r * columns + j)] * g[At(j)] / static_cast<double>(columns);
        sum_x += d[At(r * columns + j)] * g[At(j)] * n.xhat[At(r * columns + j)] / static_cast<double>(columns);
      }
      for (int64_t j = 0; j < columns; ++j) {
        want.push_back(n.rstd[At(r)] * (d[At(r * columns + j)] * g[At(j)] - sum - n.xhat[At(r * columns + j)] * sum_x));
      }
    }
    lab.Run(ops::LayerNormBackward{dy, x, gamma, mean, rstd, dx});
    return std::vector<Expected>{{dx, want, 40, t}};
  });
}

TEST(Rows, LayerNormWeights) {
  ForEachGradient("layer_norm_weights",
                  [](Lab& lab, DType t, DType out_type, int64_t rows, int64_t columns, bool accumulate) {
                    const Tensor x = lab.Normal({rows, columns}, t), dy = lab.Normal(x.shape(), t);
                    const Normalised n = Normalise(ValuesOf(x), rows, columns, 0.01);
                    const Tensor mean = lab.Of({rows}, Wide(t), n.mean), rstd = lab.Of({rows}, Wide(t), n.rstd);
                    const Tensor dgamma = lab.Output({columns}, out_type, accumulate),
                                 dbeta = lab.Output({columns}, out_type, accumulate);
                    Values gamma_want = Start(dgamma, accumulate), beta_want = Start(dbeta, accumulate);
                    const Values d = ValuesOf(dy);
                    for (size_t i = 0; i < d.size(); ++i) {
                      gamma_want[i % At(columns)] += d[i] * n.xhat[i];
                      beta_want[i % At(columns)] += d[i];
                    }
                    lab.Run(ops::LayerNormWeights{dy, x, mean, rstd, dgamma, dbeta, accumulate});
                    const double scale = 10 + 2 * std::sqrt(static_cast<double>(rows));
                    return std::vector<Expected>{{dgamma, gamma_want, scale, t}, {dbeta, beta_want, scale, t}};
                  });
}

TEST(Rows, CrossEntropy) {
  for (DType ids_type : {DType::kI32, DType::kU8}) {
    ForEachCase("cross_entropy", [&](Lab& lab, DType t, int64_t rows, int64_t classes) {
      const Tensor logits = lab.Normal({rows, classes}, t, 3),
                   targets = lab.Ids(rows, ids_type, std::min<int64_t>(classes, 255));
      const Tensor losses = lab.Blank({rows}, Wide(t)), lse = lab.Blank({rows}, Wide(t)),
                   dlogits = lab.Blank(logits.shape(), t);
      const Values x = ValuesOf(logits), target = ValuesOf(targets);
      const double scale = 0.7;
      Values loss_want, lse_want, d_want;
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t j = 0; j < classes; ++j) sum += std::exp(x[At(r * classes + j)]);
        lse_want.push_back(std::log(sum));
        loss_want.push_back(std::log(sum) - x[At(r * classes + static_cast<int64_t>(target[At(r)]))]);
        for (int64_t j = 0; j < classes; ++j) {
          const double onehot = j == static_cast<int64_t>(target[At(r)]) ? 1 : 0;
          d_want.push_back(scale * (std::exp(x[At(r * classes + j)]) / sum - onehot));
        }
      }
      lab.Run(ops::CrossEntropyForward{logits, targets, losses, lse});
      const Tensor saved = lab.Of({rows}, Wide(t), lse_want);
      lab.Run(ops::CrossEntropyBackward{logits, targets, saved, dlogits, scale});
      lab.Run(ops::CrossEntropyBackward{logits, targets, saved, logits, scale});  // in place
      return std::vector<Expected>{
          {losses, loss_want, 10, t}, {lse, lse_want, 5, t}, {dlogits, d_want, 1, t}, {logits, d_want, 1, t}};
    });
  }
}

TEST(Rows, CrossEntropyOfLargeLogitsIsFinite) {
  Lab lab(1, 0);
  const Tensor logits = lab.Of({1, 3}, DType::kF32, {1e4, 0, -1e4}), targets = lab.Of({1}, DType::kI32, {0});
  const Tensor losses = lab.Blank({1}, DType::kF32), lse = lab.Blank({1}, DType::kF32);
  lab.Run(ops::CrossEntropyForward{logits, targets, losses, lse});
  EXPECT_EQ(ValuesOf(losses)[0], 0);
  EXPECT_EQ(ValuesOf(lse)[0], 1e4);
}

TEST(Rows, CountCorrect) {
  for (const DType ids_type : {DType::kI32, DType::kU8}) {
    ForEachCase("count_correct", [&](Lab& lab, DType t, int64_t rows, int64_t classes) {
      const Tensor logits = lab.Normal({rows, classes}, t, 3),
                   targets = lab.Ids(rows, ids_type, std::min<int64_t>(classes, 255));
      const Values x = ValuesOf(logits), target = ValuesOf(targets);
      double correct = 0;
      for (int64_t r = 0; r < rows; ++r) {
        const auto first = x.begin() + r * classes;
        correct += std::max_element(first, first + classes) - first == static_cast<int64_t>(target[At(r)]);
      }
      const Tensor fresh = lab.Blank({1}, Wide(t)), added = lab.Of({1}, Wide(t), {7});
      lab.Run(ops::CountCorrect{logits, targets, fresh});
      lab.Run(ops::CountCorrect{logits, targets, added, true});
      return std::vector<Expected>{{fresh, {correct}, 0, t}, {added, {correct + 7}, 0, t}};
    });
  }
}

TEST(Rows, TheFirstOfEqualLogitsCountsAndNoNumberDoesNot) {
  Lab lab(1, 0);
  const double nan = std::nan("");
  const Tensor logits = lab.Of({4, 2}, DType::kF32, {1, 1, 1, 1, nan, nan, nan, 3});
  const Tensor out = lab.Blank({1}, DType::kF32);
  lab.Run(ops::CountCorrect{logits, lab.Of({4}, DType::kI32, {0, 1, 0, 1}), out});
  EXPECT_EQ(ValuesOf(out)[0], 2);  // the first row and the last
}

TEST(RowsDeathTest, IdsOutsideTheTable) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Lab lab(1, 0);
  const Tensor table = lab.Normal({4, 2}, DType::kF32), out = lab.Blank({1, 2}, DType::kF32);
  EXPECT_DEATH(lab.Run(ops::EmbeddingForward{lab.Of({1}, DType::kI32, {4}), table, out}), "4 against 4");
  EXPECT_DEATH(lab.Run(ops::EmbeddingForward{lab.Of({1}, DType::kI32, {-1}), table, out}), "-1 against 0");
  const Tensor losses = lab.Blank({4}, DType::kF32), lse = lab.Blank({4}, DType::kF32);
  EXPECT_DEATH(lab.Run(ops::CrossEntropyForward{table, lab.Of({4}, DType::kI32, {0, 2, 0, 0}), losses, lse}),
               "2 against 2");
}

}  // namespace rows_test
}  // namespace twofold
