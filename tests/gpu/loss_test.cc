// Losses of logits, whole and split over ranks, and sums. Odd numbers of classes put every row at another address.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/gpu/against_cpu.h"

namespace twofold {
namespace loss_test {

class GpuLosses : public GpuTest {};

struct TypeCase {
  DType type;
  double tolerance;
};  // narrow: one rounding, of what is stored narrow
constexpr TypeCase kTypes[] = {{DType::kF64, 1e-12}, {DType::kF32, 2e-6}, {DType::kBF16, 4e-3}, {DType::kF16, 5e-4}};
struct Size {
  int64_t rows, classes;
};
constexpr Size kSizes[] = {{7, 1}, {37, 10}, {5, 33}, {3, 127}, {3, 257}, {2, 2048}, {2, 16389}, {0, 5}};

double Sums(const TypeCase& t) { return t.type == DType::kF64 ? 1e-12 : 2e-6; }  // of outputs that are (f32)

template <class F>
void ForCases(F run) {
  for (const TypeCase& t : kTypes) {
    for (const Size& s : kSizes) {
      for (const DType ids : {DType::kI32, DType::kU8}) run(t, s, ids);
    }
  }
}
Tensor Targets(Operands& a, Size s, DType ids) {
  return a.Ids({s.rows}, ids == DType::kU8 ? std::min<int64_t>(s.classes, 256) : s.classes, ids);
}

TEST_F(GpuLosses, CrossEntropyForward) {
  ForCases([](TypeCase t, Size s, DType ids) {
    ExpectLikeCpu(t.type, Sums(t), [=](Operands& a) -> ops::Op {
      return ops::CrossEntropyForward{.logits = a.Normal({s.rows, s.classes}, 4),
                                      .targets = Targets(a, s, ids),
                                      .losses = a.WideOut({s.rows}),
                                      .lse = a.WideOut({s.rows})};
    });
  });
}

// Masked classes, a largest logit that comes late, and sizes that exp alone would not bear.
TEST_F(GpuLosses, CrossEntropyOfExtremeLogits) {
  for (const TypeCase& t : kTypes) {
    ExpectLikeCpu(t.type, Sums(t), [=](Operands& a) -> ops::Op {
      const auto logit = [](int64_t i) {
        return i % 3 == 0 ? -std::numeric_limits<double>::infinity() : 2.0 * static_cast<double>(i % 1000) - 800;
      };
      const Tensor logits = a.Values({3, 1000}, logit, t.type);
      return ops::CrossEntropyForward{
          .logits = logits,
          .targets = a.Values(
              {3}, [](int64_t i) { return 998.0 + static_cast<double>(i == 1); }, DType::kI32),
          .losses = a.WideOut({3}),
          .lse = a.WideOut({3})};
    });
  }
}

// Gradients must be numbers of F16: of logits like these (of deviation 3) seven deviations from 0 is where they end.
Tensor Lse(Operands& a, Size s) { return a.WideUniform({s.rows}, 8, 9); }

TEST_F(GpuLosses, CrossEntropyBackward) {
  for (const bool in_place : {false, true}) {
    ForCases([=](TypeCase t, Size s, DType ids) {
      ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
        const Tensor logits = a.Normal({s.rows, s.classes}, 3);
        const Tensor dlogits = in_place ? a.InOut(logits) : a.Out({s.rows, s.classes});
        return ops::CrossEntropyBackward{
            .logits = logits, .targets = Targets(a, s, ids), .lse = Lse(a, s), .dlogits = dlogits, .scale = 0.25};
      });
    });
  }
}

TEST_F(GpuLosses, CountCorrect) {
  ForCases([](TypeCase t, Size s, DType ids) {
    for (const bool accumulate : {false, true}) {
      ExpectLikeCpu(t.type, 0, [=](Operands& a) -> ops::Op {
        // Few different values: many are equal.
        const Tensor logits = a.Values(
            {s.rows, s.classes}, [](int64_t i) { return static_cast<double>(i * 7919 % 5); }, t.type);
        const Tensor out = accumulate ? a.InOut(a.Values(
                                            {1}, [](int64_t) { return 3.0; }, a.wide()))
                                      : a.WideOut({1});
        return ops::CountCorrect{.logits = logits,
                                 .targets = a.Values(
                                     {s.rows}, [s](int64_t i) { return static_cast<double>(i % 3 % s.classes); }, ids),
                                 .out = out,
                                 .accumulate = accumulate};
      });
    }
  });
}

TEST_F(GpuLosses, CountCorrectOfRowsWithoutALargest) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const TypeCase& t : kTypes) {
    ExpectLikeCpu(t.type, 0, [=](Operands& a) -> ops::Op {
      const auto logit = [inf](int64_t i) {
        return i < 40 ? std::nan("") : i < 80 ? -inf : i % 40 == 1 ? 1.0 : i % 40 == 0 ? std::nan("") : 0.0;
      };
      return ops::CountCorrect{.logits = a.Values({3, 40}, logit, t.type),
                               .targets = a.Values(
                                   {3}, [](int64_t i) { return static_cast<double>(i == 2); }, DType::kI32),
                               .out = a.WideOut({1})};
    });
  }
}

// ---- Split over ranks: columns that are padding, no classes at all, targets that are another rank's ----

struct Part {
  int64_t rows, columns, first, classes;
};
constexpr Part kParts[] = {{5, 33, 0, 33}, {5, 33, 33, 31}, {3, 260, 40, 257}, {4, 8, 100, 0}, {2, 9000, 1000, 8193}};

template <class F>
void ForParts(F run) {
  for (const TypeCase& t : kTypes) {
    for (const Part& p : kParts) run(t, p);
  }
}
Tensor WholeTargets(Operands& a, Part p) { return a.Ids({p.rows}, 2 * p.columns); }

TEST_F(GpuLosses, SplitMax) {
  ForParts([](TypeCase t, Part p) {
    ExpectLikeCpu(t.type, 0, [=](Operands& a) -> ops::Op {
      return ops::SplitMax{
          .logits = a.Normal({p.rows, p.columns}, 4), .largest = a.WideOut({p.rows}), .classes = p.classes};
    });
  });
}

// Every fourth row's is one of those that are as large as the largest; the others' are anybody's.
Tensor TiedTargets(Operands& a, Part p) {
  const auto target = [p](int64_t row) {
    for (int64_t c = p.classes / 2; row % 4 == 0 && c < p.classes; ++c) {
      if ((row * p.columns + c) * 7919 % 5 == 4) return static_cast<double>(p.first + c);
    }
    return static_cast<double>((row * 31 + 7) % (2 * p.columns));
  };
  return a.Values({p.rows}, target, DType::kI32);
}

TEST_F(GpuLosses, SplitSums) {
  ForParts([](TypeCase t, Part p) {
    for (const int64_t sums : {2, 3}) {
      ExpectLikeCpu(t.type, Sums(t), [=](Operands& a) -> ops::Op {
        const Tensor logits = a.Values(
            {p.rows, p.columns}, [](int64_t i) { return static_cast<double>(i * 7919 % 5); }, t.type);
        return ops::SplitSums{.logits = logits,
                              .targets = TiedTargets(a, p),
                              .largest = a.Values(
                                  {p.rows}, [](int64_t i) { return 4.0 + static_cast<double>(i % 2); }, a.wide()),
                              .sums = a.WideOut({sums, p.rows}),
                              .first = p.first,
                              .classes = p.classes};
      });
    }
  });
}

TEST_F(GpuLosses, SplitLosses) {
  for (const TypeCase& t : kTypes) {
    for (const int64_t rows : {1, 33, 257}) {
      ExpectLikeCpu(t.type, Sums(t), [=](Operands& a) -> ops::Op {
        return ops::SplitLosses{.largest = a.WideNormal({rows}),
                                .sums = a.WideUniform({2, rows}, 1, 9),
                                .losses = a.WideOut({rows}),
                                .lse = a.WideOut({rows})};
      });
    }
  }
}

TEST_F(GpuLosses, SplitBackward) {
  for (const bool in_place : {false, true}) {
    ForParts([=](TypeCase t, Part p) {
      ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
        const Tensor logits = a.Normal({p.rows, p.columns}, 3);
        const Tensor dlogits = in_place ? a.InOut(logits) : a.Out({p.rows, p.columns});
        return ops::SplitBackward{.logits = logits,
                                  .targets = WholeTargets(a, p),
                                  .lse = Lse(a, {p.rows, p.columns}),
                                  .dlogits = dlogits,
                                  .first = p.first,
                                  .classes = p.classes,
                                  .scale = 0.25};
      });
    });
  }
}

TEST_F(GpuLosses, SplitCorrect) {
  for (const TypeCase& t : kTypes) {
    for (const int64_t rows : {1, 33, 2049}) {
      for (const bool accumulate : {false, true}) {
        ExpectLikeCpu(t.type, 0, [=](Operands& a) -> ops::Op {
          return ops::SplitCorrect{.sums = a.Values(
                                       {3, rows}, [](int64_t i) { return static_cast<double>(i % 7 == 0); }, a.wide()),
                                   .out = accumulate ? a.InOut(a.Values(
                                                           {1}, [](int64_t) { return 3.0; }, a.wide()))
                                                     : a.WideOut({1}),
                                   .accumulate = accumulate};
        });
      }
    }
  }
}

// ---- Sums ----

TEST_F(GpuLosses, SumsAndSquares) {
  for (const TypeCase& t : kTypes) {
    for (const int64_t n : {0, 1, 31, 257, 4097, 33003}) {
      for (const bool accumulate : {false, true}) {
        const auto out = [=](Operands& a) {
          return accumulate ? a.InOut(a.Values(
                                  {1}, [](int64_t) { return -5.0; }, a.wide()))
                            : a.WideOut({1});
        };
        ExpectLikeCpu(t.type, Sums(t), [=](Operands& a) -> ops::Op {
          return ops::Sum{.in = a.Normal({n}, 1, 0.5), .out = out(a), .factor = 0.125, .accumulate = accumulate};
        });
        ExpectLikeCpu(t.type, Sums(t), [=](Operands& a) -> ops::Op {
          return ops::SquaredNorm{.in = a.Normal({n}), .out = out(a), .accumulate = accumulate};
        });
      }
    }
  }
}

// More blocks than are added up at a time, the last one a part.
TEST_F(GpuLosses, SquaresOfManyBlocks) {
  ExpectLikeCpu(DType::kBF16, Sums({DType::kF32}), [](Operands& a) -> ops::Op {
    return ops::SquaredNorm{.in = a.Normal({9 * ops::kNormBlock + 20001}), .out = a.WideOut({1})};
  });
}

}  // namespace loss_test
}  // namespace twofold
