// What the library is asked for, done by plain loops that know column-major matrices and nothing of operations, must be
// what the operations say.
#include "kernels/cuda/product.h"

#include <cmath>

#include "tests/seed.h"
#include "tests/unit/kernels/lab.h"

namespace twofold::cuda {
namespace product_test {

// As cuBLASLt's documentation has it.
void Multiply(const LibraryProduct& p, const Values& a, int64_t a_first, const Values& b, int64_t b_first,
              const Values& bias, Values& d, int64_t d_first, double beta) {
  const auto element = [](const LibraryMatrix& m, bool transpose, int64_t row, int64_t column) {
    if (transpose) std::swap(row, column);
    EXPECT_LT(row, m.rows);
    EXPECT_LT(column, m.columns);
    EXPECT_LE(m.rows, m.leading);
    return row + column * m.leading;
  };
  ASSERT_EQ(p.transpose_b ? p.b.columns : p.b.rows, p.inner());
  for (int64_t i = 0; i < p.batch; ++i) {
    for (int64_t row = 0; row < p.d.rows; ++row) {
      for (int64_t column = 0; column < p.d.columns; ++column) {
        double sum = 0;
        for (int64_t k = 0; k < p.inner(); ++k) {
          sum += a.at(At(a_first + i * p.a.batch_stride + element(p.a, p.transpose_a, row, k))) *
                 b.at(At(b_first + i * p.b.batch_stride + element(p.b, p.transpose_b, k, column)));
        }
        double& to = d.at(At(d_first + i * p.d.batch_stride + element(p.d, false, row, column)));
        to = p.alpha * sum + (beta == 0 ? 0 : beta * to) + (p.bias ? bias.at(At(row)) : 0);
      }
    }
  }
}
void MultiplyAll(const ProductPlan& plan, const Values& a, const Values& b, const Values& bias, Values& d) {
  ForEachProduct(plan, [&](int64_t a_first, int64_t b_first, int64_t d_first, double beta) {
    Multiply(plan.product, a, a_first, b, b_first, bias, d, d_first, beta);
  });
}

void ExpectNear(const Values& got, const Values& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-9) << "element " << i;
}

TEST(PlanOfMatMul, IsTheProduct) {
  for (int way = 0; way < 32; ++way) {
    const bool ta = way & 1, tb = way & 2, accumulate = way & 4, copy = way & 8, bias = way & 16;
    for (const auto& [m, n, k] :
         std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {2, 3, 5}, {7, 1, 4}, {1, 9, 2}, {5, 4, 1}}) {
      SCOPED_TRACE(way);
      Lab lab(1, 3);
      const DType f64 = DType::kF64;
      const ops::MatMul o{.a = lab.Normal(ta ? Shape{k, m} : Shape{m, k}, f64),
                          .b = lab.Normal(tb ? Shape{n, k} : Shape{k, n}, f64),
                          .out = lab.Normal({m, n}, f64),
                          .bias = bias ? lab.Normal({n}, f64) : Tensor(),
                          .transpose_a = ta,
                          .transpose_b = tb,
                          .accumulate = accumulate};
      const Values before = ValuesOf(o.out);
      Values got = copy ? Values(before.size(), std::nan("")) : before;
      const ProductPlan plan = PlanOf(o, copy, bias);
      EXPECT_TRUE(plan.loops.empty());
      MultiplyAll(plan, ValuesOf(o.b), ValuesOf(o.a), bias ? ValuesOf(o.bias) : Values(), got);
      for (size_t i = 0; copy && accumulate && i < got.size(); ++i) got[i] += before[i];
      lab.Run(o);
      ASSERT_NO_FATAL_FAILURE(ExpectNear(got, ValuesOf(o.out)));
    }
  }
}

TEST(PlanOfMatMul, StoresItsOutputsTypeOrACopyOfTheArithmetics) {
  Lab lab(1, 0);
  const ops::MatMul o{.a = lab.Normal({2, 3}, DType::kBF16),
                      .b = lab.Normal({3, 4}, DType::kBF16),
                      .out = lab.Normal({2, 4}, DType::kF64)};
  EXPECT_EQ(PlanOf(o, true, false).product.d.type, DType::kF32);
  EXPECT_EQ(PlanOf(o, false, false).product.d.type, DType::kF64);
  EXPECT_EQ(PlanOf(o, false, false).product.arithmetic, DType::kF32);
}

// Where the matrices of an operand lie, by name.
enum class Layout { kHeadsApart, kHeadsSideBySide, kOneBatch };
ops::Matrices Operand(Lab& lab, Layout layout, int64_t batches, int64_t heads, int64_t group, int64_t rows,
                      int64_t columns) {
  const int64_t own = heads / group, first = 2;
  switch (layout) {
    case Layout::kHeadsApart:  // [b, h, rows, columns]
      return {lab.Normal({first + batches * own * rows * columns}, DType::kF64),
              columns,
              own * rows * columns,
              rows * columns,
              first,
              group};
    case Layout::kHeadsSideBySide:  // [b, rows, h, columns], and a column that is not theirs
      return {lab.Normal({first + batches * rows * (own * columns + 1)}, DType::kF64),
              own * columns + 1,
              rows * (own * columns + 1),
              columns,
              first,
              group};
    case Layout::kOneBatch:  // all batches share one: operands alone
      return {lab.Normal({first + own * rows * columns}, DType::kF64), columns, 0, rows * columns, first, group};
  }
  return {};
}

TEST(PlanOfBatchedMatMul, IsTheProducts) {
  std::mt19937 rng(TestSeed());
  const auto draw = [&](int64_t below) { return static_cast<int64_t>(rng() % static_cast<uint32_t>(below)); };
  const int64_t groups[] = {1, 1, 2, 4};
  for (int i = 0; i < 3000; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Lab lab(1, 0);
    ops::BatchedMatMul o{.batches = 1 + draw(3),
                         .heads = 4 * (1 + draw(3)),
                         .m = 1 + draw(4),
                         .n = 1 + draw(4),
                         .k = 1 + draw(4),
                         .transpose_a = draw(2) == 1,
                         .transpose_b = draw(2) == 1,
                         .accumulate = draw(2) == 1,
                         .alpha = 0.5};
    if (draw(4) == 0) o.heads = 1;
    const auto group = [&] { return o.heads == 1 ? 1 : groups[draw(4)]; };
    o.a = Operand(lab, Layout(draw(3)), o.batches, o.heads, group(), o.transpose_a ? o.k : o.m,
                  o.transpose_a ? o.m : o.k);
    o.b = Operand(lab, Layout(draw(3)), o.batches, o.heads, group(), o.transpose_b ? o.n : o.k,
                  o.transpose_b ? o.k : o.n);
    o.out = Operand(lab, Layout(draw(2)), o.batches, o.heads, group(), o.m, o.n);
    const bool copy = draw(2) == 1;
    const Values before = ValuesOf(o.out.tensor);
    const int64_t matrices = o.batches * (o.heads / o.out.group);
    Values got = copy ? Values(At(matrices * o.m * o.n), std::nan("")) : before;
    MultiplyAll(PlanOf(o, copy), ValuesOf(o.b.tensor), ValuesOf(o.a.tensor), {}, got);
    lab.Run(o);
    Values want = ValuesOf(o.out.tensor);
    if (copy) {
      Values placed = before;
      for (int64_t e = 0; e < matrices * o.m * o.n; ++e) {
        const int64_t own = o.heads / o.out.group, matrix = e / (o.m * o.n), row = e / o.n % o.m;
        double& to = placed[At(o.out.first + matrix / own * o.out.batch + matrix % own * o.out.head +
                               row * o.out.stride + e % o.n)];
        to = (o.accumulate ? to : 0) + got[At(e)];
      }
      got = placed;
    }
    ASSERT_NO_FATAL_FAILURE(ExpectNear(got, want));
  }
}

// Attention's products, as layers ask for them: one call of the library for each batch, or one for all.
TEST(PlanOfBatchedMatMul, DoesHeadsAtOnce) {
  constexpr int64_t kBatches = 3, kHeads = 4, kT = 5, kD = 2;
  Lab lab(1, 0);
  const auto scores = [&] { return Operand(lab, Layout::kHeadsApart, kBatches, kHeads, 1, kT, kT); };
  const auto columns = [&](int64_t group) {
    return Operand(lab, Layout::kHeadsSideBySide, kBatches, kHeads, group, kT, kD);
  };
  ops::BatchedMatMul o{.a = columns(1),
                       .b = columns(1),
                       .out = scores(),
                       .batches = kBatches,
                       .heads = kHeads,
                       .m = kT,
                       .n = kT,
                       .k = kD,
                       .transpose_b = true};
  ProductPlan plan = PlanOf(o, false);
  EXPECT_EQ(plan.product.batch, kHeads);
  ASSERT_EQ(plan.loops.size(), 1u);
  EXPECT_EQ(plan.loops[0].count, kBatches);

  o = {.a = scores(), .b = scores(), .out = scores(), .batches = kBatches, .heads = kHeads, .m = kT, .n = kT, .k = kT};
  plan = PlanOf(o, false);  // all lie evenly apart
  EXPECT_EQ(plan.product.batch, kBatches * kHeads);
  EXPECT_TRUE(plan.loops.empty());

  o = {.a = scores(),
       .b = columns(1),
       .out = columns(4),
       .batches = kBatches,
       .heads = kHeads,
       .m = kT,
       .n = kD,
       .k = kT};
  plan = PlanOf(o, false);  // batches at once, heads summed one after the other
  EXPECT_EQ(plan.product.batch, kBatches);
  ASSERT_EQ(plan.loops.size(), 1u);
  EXPECT_EQ(plan.loops[0].count, kHeads);
  EXPECT_EQ(plan.loops[0].d, 0);
}

TEST(CudaWorkspace, OfProductsIsTheLibrarysAndCopies) {
  using ops::rules::CudaWorkspace;
  constexpr int64_t kLibrary = 32 << 20;
  Lab lab(1, 0);
  const auto matmul = [&](DType in, DType out, bool bias) {
    return CudaWorkspace(ops::MatMul{.a = lab.Blank({100, 30}, in),
                                     .b = lab.Blank({30, 7}, in),
                                     .out = lab.Blank({100, 7}, out),
                                     .bias = bias ? lab.Blank({7}, in) : Tensor()})
        .value();
  };
  EXPECT_EQ(matmul(DType::kBF16, DType::kBF16, false), kLibrary);
  EXPECT_EQ(matmul(DType::kBF16, DType::kF32, true), kLibrary + 512);
  EXPECT_EQ(matmul(DType::kF32, DType::kBF16, false), kLibrary + 3072);  // 700 elements of F32
  EXPECT_EQ(matmul(DType::kF64, DType::kF32, false), kLibrary + 5632);   // 700 of F64
  EXPECT_EQ(CudaWorkspace(ops::MatMul{.a = lab.Blank({3, 0}, DType::kF32),
                                      .b = lab.Blank({0, 7}, DType::kF32),
                                      .out = lab.Blank({3, 7}, DType::kBF16)})
                .value(),
            0);

  const auto matrices = [&](DType t, int64_t group) {
    return ops::Matrices{lab.Blank({2, 4, 3, 3}, t), 3, 36 / group, 9, 0, group};
  };
  const auto batched = [&](DType out, int64_t group) {
    return CudaWorkspace(ops::BatchedMatMul{.a = matrices(DType::kBF16, 1),
                                            .b = matrices(DType::kBF16, 1),
                                            .out = matrices(out, group),
                                            .batches = 2,
                                            .heads = 4,
                                            .m = 3,
                                            .n = 3,
                                            .k = 3})
        .value();
  };
  EXPECT_EQ(batched(DType::kBF16, 1), kLibrary);
  EXPECT_EQ(batched(DType::kF32, 2), kLibrary);
  EXPECT_EQ(batched(DType::kBF16, 2), kLibrary + 512);
  EXPECT_EQ(batched(DType::kF64, 1), kLibrary + 512);
}

}  // namespace product_test
}  // namespace twofold::cuda
