// The loss of logits whose classes lie in several tensors, against plain ones; and tables of which there are parts.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace split_loss_test {

constexpr int64_t kClasses = 2049, kColumns = 700;   // of the whole; of a part, the last ones padded
constexpr int64_t kFirsts[] = {0, 700, 1400, 2049};  // the last part is padding alone
constexpr int64_t kCounts[] = {700, 700, 649, 0};

// Columns [first, first + count) of `whole` [rows, kClasses]; NaN behind them.
Tensor PartOf(Lab& lab, const Values& whole, int64_t rows, size_t part, DType t) {
  Values values(static_cast<size_t>(rows * kColumns), std::numeric_limits<double>::quiet_NaN());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < kCounts[part]; ++j)
      values[static_cast<size_t>(r * kColumns + j)] = whole[static_cast<size_t>(r * kClasses + kFirsts[part] + j)];
  return lab.Of({rows, kColumns}, t, values);
}

struct Plain {
  Values largest, sum, of_target, ties, lse, losses;
};

// Row by row in double. Every third row has its largest logit twice.
Plain Reference(const Values& x, const Values& targets, int64_t rows) {
  Plain p;
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = x.begin() + r * kClasses;
    const auto target = static_cast<int64_t>(targets[static_cast<size_t>(r)]);
    const double largest = *std::max_element(row, row + kClasses);
    double sum = 0;
    for (int64_t j = 0; j < kClasses; ++j) sum += std::exp(row[j] - largest);
    p.largest.push_back(largest), p.sum.push_back(sum), p.of_target.push_back(row[target] - largest);
    p.ties.push_back(static_cast<double>(std::count(row, row + target, largest)));
    p.lse.push_back(largest + std::log(sum)), p.losses.push_back(p.lse.back() - row[target]);
  }
  return p;
}

struct Problem {
  Tensor targets;
  Values x, target;
  Plain plain;
};
Problem Make(Lab& lab, DType t, int64_t rows) {
  Problem p;
  p.targets = lab.Ids(rows, DType::kI32, kClasses);
  p.target = ValuesOf(p.targets);
  const Tensor whole = lab.Normal({rows, kClasses}, t, 2);
  p.x = ValuesOf(whole);
  for (int64_t r = 0; r < rows; r += 3) {  // the target's logit is the largest, and so is another one
    p.x[static_cast<size_t>(r * kClasses) + static_cast<size_t>(p.target[static_cast<size_t>(r)])] = 16;
    p.x[static_cast<size_t>(r * kClasses + (r * 977 + 5) % kClasses)] = 16;
  }
  p.plain = Reference(p.x, p.target, rows);
  return p;
}

TEST(SplitLoss, PartsAddUpToTheWhole) {
  for (const DType t : kFloats) {
    for (const int64_t rows : {1, 7}) {
      Verify("split loss " + Name(t), [&](Lab& lab) {
        const Problem p = Make(lab, t, rows);
        const Tensor largest = lab.Of({rows}, Wide(t), p.plain.largest);
        std::vector<Expected> expected;
        Values largest_of_parts(static_cast<size_t>(rows), -std::numeric_limits<double>::infinity());
        Values sum(static_cast<size_t>(rows)), of_target = sum, ties = sum;
        for (size_t part = 0; part < 4; ++part) {
          const Tensor logits = PartOf(lab, p.x, rows, part, t);
          const Tensor mine = lab.Blank({rows}, Wide(t)), sums = lab.Blank({3, rows}, Wide(t)),
                       two = lab.Blank({2, rows}, Wide(t));
          lab.Run(ops::SplitMax{.logits = logits, .largest = mine, .classes = kCounts[part]});
          lab.Run(ops::SplitSums{.logits = logits,
                                 .targets = p.targets,
                                 .largest = largest,
                                 .sums = sums,
                                 .first = kFirsts[part],
                                 .classes = kCounts[part]});
          lab.Run(ops::SplitSums{.logits = logits,
                                 .targets = p.targets,
                                 .largest = largest,
                                 .sums = two,
                                 .first = kFirsts[part],
                                 .classes = kCounts[part]});
          const Values m = ValuesOf(mine), s = ValuesOf(sums);
          EXPECT_EQ(BitsOf(two), BitsOf(sums.Slice(0, 2 * rows)));
          for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
            largest_of_parts[r] = std::max(largest_of_parts[r], m[r]);
            sum[r] += s[r], of_target[r] += s[static_cast<size_t>(rows) + r],
                ties[r] += s[static_cast<size_t>(2 * rows) + r];
          }
        }
        EXPECT_EQ(largest_of_parts, ValuesOf(largest));
        EXPECT_EQ(ties, p.plain.ties);
        const double slack = t == DType::kF64 ? 1e-11 : 2e-4;
        for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
          EXPECT_NEAR(sum[r], p.plain.sum[r], slack * p.plain.sum[r]);
          EXPECT_NEAR(of_target[r], p.plain.of_target[r], slack);
        }
        Values both = p.plain.sum;
        both.insert(both.end(), p.plain.of_target.begin(), p.plain.of_target.end());
        const Tensor losses = lab.Blank({rows}, Wide(t)), lse = lab.Blank({rows}, Wide(t));
        lab.Run(ops::SplitLosses{
            .largest = largest, .sums = lab.Of({2, rows}, Wide(t), both), .losses = losses, .lse = lse});
        expected.push_back({losses, p.plain.losses, 20, t});
        expected.push_back({lse, p.plain.lse, 20, t});
        return expected;
      });
    }
  }
}

TEST(SplitLoss, GradientsAreThoseOfTheWhole) {
  for (const DType t : kFloats) {
    for (size_t part = 0; part < 4; ++part) {
      for (const bool in_place : {false, true}) {
        Verify("split backward " + Name(t), [&](Lab& lab) {
          constexpr int64_t kRows = 5;
          const Problem p = Make(lab, t, kRows);
          const Tensor logits = PartOf(lab, p.x, kRows, part, t),
                       dlogits = in_place ? logits : lab.Blank(logits.shape(), t);
          Values want(static_cast<size_t>(kRows * kColumns));
          for (int64_t r = 0; r < kRows; ++r) {
            for (int64_t j = 0; j < kCounts[part]; ++j) {
              const int64_t column = kFirsts[part] + j;
              const double softmax =
                  std::exp(p.x[static_cast<size_t>(r * kClasses + column)] - p.plain.lse[static_cast<size_t>(r)]);
              want[static_cast<size_t>(r * kColumns + j)] =
                  0.25 * (softmax - (column == p.target[static_cast<size_t>(r)] ? 1 : 0));
            }
          }
          lab.Run(ops::SplitBackward{.logits = logits,
                                     .targets = p.targets,
                                     .lse = lab.Of({kRows}, Wide(t), p.plain.lse),
                                     .dlogits = dlogits,
                                     .first = kFirsts[part],
                                     .classes = kCounts[part],
                                     .scale = 0.25});
          return std::vector<Expected>{{dlogits, want, 1, t}};
        });
      }
    }
  }
}

TEST(SplitLoss, CountsRowsWhoseTargetIsTheFirstOfTheLargest) {
  for (const DType t : {DType::kF32, DType::kF64}) {
    Verify("split correct " + Name(t), [&](Lab& lab) {
      const Tensor sums =
          lab.Of({3, 5}, t, {9, 9, 9, 9, 9, 0, -1, 0, 0, std::numeric_limits<double>::quiet_NaN(), 0, 0, 1, 0, 0});
      const Tensor fresh = lab.Blank({1}, t), added = lab.Of({1}, t, {10});
      lab.Run(ops::SplitCorrect{.sums = sums, .out = fresh});
      lab.Run(ops::SplitCorrect{.sums = sums, .out = added, .accumulate = true});
      return std::vector<Expected>{{fresh, {2}, 0, t}, {added, {12}, 0, t}};
    });
  }
}

// ---- Tables of which this is a part ----

constexpr int64_t kVocab = 11, kRows = 4, kWidth = 37;  // of which a table holds rows [first, first + kRows)

TEST(SplitTable, HasZerosForOthersRows) {
  for (const DType t : kFloats) {
    for (const int64_t first : {0, 4, 8}) {  // the last one holds a row of padding
      Verify("split embedding " + Name(t), [&](Lab& lab) {
        const Tensor ids = lab.Ids(23, DType::kI32, kVocab), table = lab.Normal({kRows, kWidth}, t),
                     out = lab.Blank({23, kWidth}, t);
        lab.Run(ops::EmbeddingForward{.ids = ids, .table = table, .out = out, .first = first, .vocab = kVocab});
        Values want;
        const Values rows = ValuesOf(table);
        for (const double id : ValuesOf(ids)) {
          const int64_t row = static_cast<int64_t>(id) - first;
          for (int64_t j = 0; j < kWidth; ++j)
            want.push_back(row >= 0 && row < kRows ? rows[static_cast<size_t>(row * kWidth + j)] : 0);
        }
        return std::vector<Expected>{{out, want, 0, t}};
      });
    }
  }
}

TEST(SplitTable, GetsTheGradientOfItsOwnRows) {
  for (const DType t : kFloats) {
    for (const int64_t first : {0, 4, 8}) {
      for (const bool accumulate : {false, true}) {
        Verify("split embedding backward " + Name(t), [&](Lab& lab) {
          const Tensor ids = lab.Ids(23, DType::kI32, kVocab), dy = lab.Normal({23, kWidth}, t);
          const Tensor dtable = lab.Output({kRows, kWidth}, t, accumulate);
          Values want = accumulate ? ValuesOf(dtable) : Values(static_cast<size_t>(kRows * kWidth));
          const Values rows = ValuesOf(dy), id = ValuesOf(ids);
          for (size_t i = 0; i < id.size(); ++i) {
            const int64_t row = static_cast<int64_t>(id[i]) - first;
            if (row < 0 || row >= kRows) continue;
            for (int64_t j = 0; j < kWidth; ++j)
              want[static_cast<size_t>(row * kWidth + j)] +=
                  rows[i * static_cast<size_t>(kWidth) + static_cast<size_t>(j)];
          }
          lab.Run(ops::EmbeddingBackward{
              .ids = ids, .dy = dy, .dtable = dtable, .accumulate = accumulate, .first = first, .vocab = kVocab});
          return std::vector<Expected>{{dtable, want, 6, t}};
        });
      }
    }
  }
}

TEST(Bias, IsAddedToEveryRow) {
  for (const DType t : kFloats) {
    for (const bool in_place : {false, true}) {
      Verify("add_bias " + Name(t), [&](Lab& lab) {
        const Tensor x = lab.Normal({3, 5, 1100}, t), bias = lab.Normal({1100}, t),
                     out = in_place ? x : lab.Blank(x.shape(), t);
        Values want = ValuesOf(x);
        const Values b = ValuesOf(bias);
        for (size_t i = 0; i < want.size(); ++i) want[i] += b[i % 1100];
        lab.Run(ops::AddBias{.x = x, .bias = bias, .out = out});
        return std::vector<Expected>{{out, want, 4, t}};
      });
    }
  }
}

}  // namespace split_loss_test
}  // namespace twofold
