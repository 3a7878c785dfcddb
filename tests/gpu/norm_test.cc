// Norms, forward, backward and the gradients of their weights. Rows of a warp's and a block's registers, and longer
// ones; whole packs and odd widths.
#include "tests/gpu/against_cpu.h"

namespace twofold {
namespace norm_test {

class GpuNorms : public GpuTest {};

struct TypeCase {
  DType type;
  double tolerance;
};  // narrow: one rounding
constexpr TypeCase kTypes[] = {{DType::kF64, 1e-12}, {DType::kF32, 2e-6}, {DType::kBF16, 4e-3}, {DType::kF16, 5e-4}};
constexpr int64_t kColumns[] = {1, 31, 33, 64, 127, 257, 768, 1032, 2048};

template <class F>
void ForShapes(F run) {
  for (const TypeCase& t : kTypes) {
    for (const int64_t columns : kColumns) run(t, columns < 100 ? 37 : 5, columns);
    run(t, 1, 8200);  // more than a block holds
    run(t, 0, 16);
    run(t, 2, 4099);
  }
}

// What forward leaves, of mean 0.3 and deviation 2.
Tensor Mean(Operands& a, int64_t rows) { return a.WideUniform({rows}, 0.2, 0.4); }
Tensor Rstd(Operands& a, int64_t rows) { return a.WideUniform({rows}, 0.4, 0.6); }

TEST_F(GpuNorms, LayerNormForward) {
  ForShapes([](TypeCase t, int64_t rows, int64_t columns) {
    ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
      return ops::LayerNormForward{.x = a.Normal({rows, columns}, 2, 0.3),
                                   .gamma = a.Normal({columns}),
                                   .beta = a.Normal({columns}),
                                   .y = a.Out({rows, columns}),
                                   .mean = a.WideOut({rows}),
                                   .rstd = a.WideOut({rows})};
    });
  });
}

// The variance is taken from differences: a mean far from zero does not drown it.
TEST_F(GpuNorms, LayerNormOfRowsFarFromZero) {
  ExpectLikeCpu(DType::kF32, 2e-3, [](Operands& a) -> ops::Op {
    return ops::LayerNormForward{.x = a.Normal({5, 768}, 1, 3000),
                                 .gamma = a.Normal({768}),
                                 .beta = a.Normal({768}),
                                 .y = a.Out({5, 768}),
                                 .mean = a.WideOut({5}),
                                 .rstd = a.WideOut({5})};
  });
}

TEST_F(GpuNorms, LayerNormBackward) {
  ForShapes([](TypeCase t, int64_t rows, int64_t columns) {
    ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
      return ops::LayerNormBackward{.dy = a.Normal({rows, columns}),
                                    .x = a.Normal({rows, columns}, 2, 0.3),
                                    .gamma = a.Normal({columns}),
                                    .mean = Mean(a, rows),
                                    .rstd = Rstd(a, rows),
                                    .dx = a.Out({rows, columns})};
    });
  });
}

TEST_F(GpuNorms, GradientsMayTakeTheirInputsPlace) {
  for (const int64_t columns : {33, 768, 2048, 9001}) {
    ExpectLikeCpu(DType::kF32, 2e-6, [=](Operands& a) -> ops::Op {
      const Tensor dy = a.InOut(a.Normal({3, columns}));
      return ops::LayerNormBackward{.dy = dy,
                                    .x = a.Normal({3, columns}),
                                    .gamma = a.Normal({columns}),
                                    .mean = Mean(a, 3),
                                    .rstd = Rstd(a, 3),
                                    .dx = dy};
    });
    ExpectLikeCpu(DType::kF32, 2e-6, [=](Operands& a) -> ops::Op {
      const Tensor dy = a.InOut(a.Normal({3, columns}));
      return ops::RmsNormBackward{
          .dy = dy, .x = a.Normal({3, columns}), .gamma = a.Normal({columns}), .rstd = Rstd(a, 3), .dx = dy};
    });
  }
}

TEST_F(GpuNorms, RmsNormForward) {
  ForShapes([](TypeCase t, int64_t rows, int64_t columns) {
    ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
      return ops::RmsNormForward{.x = a.Normal({rows, columns}, 2),
                                 .gamma = a.Normal({columns}),
                                 .y = a.Out({rows, columns}),
                                 .rstd = a.WideOut({rows}),
                                 .eps = 1e-2};
    });
  });
}

TEST_F(GpuNorms, RmsNormBackward) {
  ForShapes([](TypeCase t, int64_t rows, int64_t columns) {
    ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
      return ops::RmsNormBackward{.dy = a.Normal({rows, columns}),
                                  .x = a.Normal({rows, columns}, 2),
                                  .gamma = a.Normal({columns}),
                                  .rstd = Rstd(a, rows),
                                  .dx = a.Out({rows, columns})};
    });
  });
}

// Sums are rounded before they are normalised; the reference's are not.
TEST_F(GpuNorms, OfASum) {
  for (const bool over_branch : {false, true}) {
    ForShapes([=](TypeCase t, int64_t rows, int64_t columns) {
      ExpectLikeCpu(t.type, 3 * t.tolerance, [=](Operands& a) -> ops::Op {
        Tensor branch = a.Normal({rows, columns}, 0.5);
        if (over_branch) branch = a.InOut(branch);
        return ops::LayerNormForward{.x = a.Normal({rows, columns}, 2, 0.3),
                                     .gamma = a.Normal({columns}),
                                     .beta = a.Normal({columns}),
                                     .y = a.Out({rows, columns}),
                                     .mean = a.WideOut({rows}),
                                     .rstd = a.WideOut({rows}),
                                     .eps = 1e-2,
                                     .branch = branch,
                                     .sum = over_branch ? branch : a.Out({rows, columns})};
      });
      ExpectLikeCpu(t.type, 3 * t.tolerance, [=](Operands& a) -> ops::Op {
        Tensor branch = a.Normal({rows, columns}, 0.5);
        if (over_branch) branch = a.InOut(branch);
        return ops::RmsNormForward{.x = a.Normal({rows, columns}, 2),
                                   .gamma = a.Normal({columns}),
                                   .y = a.Out({rows, columns}),
                                   .rstd = a.WideOut({rows}),
                                   .eps = 1e-2,
                                   .branch = branch,
                                   .sum = over_branch ? branch : a.Out({rows, columns})};
      });
    });
  }
}

TEST_F(GpuNorms, GradientsPlusWhatCamePast) {
  for (const bool over_past : {false, true}) {
    ForShapes([=](TypeCase t, int64_t rows, int64_t columns) {
      ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
        Tensor past = a.Normal({rows, columns});
        if (over_past) past = a.InOut(past);
        return ops::LayerNormBackward{.dy = a.Normal({rows, columns}),
                                      .x = a.Normal({rows, columns}, 2, 0.3),
                                      .gamma = a.Normal({columns}),
                                      .mean = Mean(a, rows),
                                      .rstd = Rstd(a, rows),
                                      .dx = over_past ? past : a.Out({rows, columns}),
                                      .past = past};
      });
      ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
        Tensor past = a.Normal({rows, columns});
        if (over_past) past = a.InOut(past);
        return ops::RmsNormBackward{.dy = a.Normal({rows, columns}),
                                    .x = a.Normal({rows, columns}, 2),
                                    .gamma = a.Normal({columns}),
                                    .rstd = Rstd(a, rows),
                                    .dx = over_past ? past : a.Out({rows, columns}),
                                    .past = past};
      });
    });
  }
}

// Blocks of rows are divided unevenly; gradients of weights are of any float type.
struct WeightsCase {
  int64_t rows, columns;
};
constexpr WeightsCase kWeights[] = {{1, 1},     {3, 31},    {31, 33},  {33, 127}, {257, 64},
                                    {100, 257}, {1025, 40}, {65, 768}, {0, 33}};

template <class F>
void ForWeights(F run) {
  for (const TypeCase& t : kTypes) {
    for (const WeightsCase& w : kWeights) {
      for (const DType to : {t.type, DType::kF32}) {
        for (const bool accumulate : {false, true}) {
          if (to == DType::kF32 && t.type == DType::kF64) continue;
          run(t, w.rows, w.columns, to, accumulate);
        }
      }
    }
  }
}

Tensor Gradient(Operands& a, int64_t columns, DType type, bool accumulate) {
  if (!accumulate) return a.OutOf({columns}, type);
  return a.InOut(a.Values(
      {columns}, [](int64_t i) { return 0.25 * static_cast<double>(i % 9 - 4); }, type));
}

TEST_F(GpuNorms, LayerNormWeights) {
  ForWeights([](TypeCase t, int64_t rows, int64_t columns, DType to, bool accumulate) {
    ExpectLikeCpu(t.type, to == t.type ? t.tolerance : 2e-6, [=](Operands& a) -> ops::Op {
      return ops::LayerNormWeights{.dy = a.Normal({rows, columns}),
                                   .x = a.Normal({rows, columns}, 2, 0.3),
                                   .mean = Mean(a, rows),
                                   .rstd = Rstd(a, rows),
                                   .dgamma = Gradient(a, columns, to, accumulate),
                                   .dbeta = Gradient(a, columns, to, accumulate),
                                   .accumulate = accumulate};
    });
  });
}

TEST_F(GpuNorms, RmsNormWeights) {
  ForWeights([](TypeCase t, int64_t rows, int64_t columns, DType to, bool accumulate) {
    ExpectLikeCpu(t.type, to == t.type ? t.tolerance : 2e-6, [=](Operands& a) -> ops::Op {
      return ops::RmsNormWeights{.dy = a.Normal({rows, columns}),
                                 .x = a.Normal({rows, columns}),
                                 .rstd = Rstd(a, rows),
                                 .dgamma = Gradient(a, columns, to, accumulate),
                                 .accumulate = accumulate};
    });
  });
}

}  // namespace norm_test
}  // namespace twofold
