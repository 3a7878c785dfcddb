// Products in FP8 under sequence parallelism: codes that are gathered are those of rounding all rows, to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "core/base/strings.h"
#include "strategies/tensor_parallel/column_linear.h"
#include "strategies/tensor_parallel/row_linear.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace fp8_rows_test {

constexpr int64_t kBatch = 2, kTokens = 8, kIn = 24, kOut = 16;

double ElementAt(int64_t i) { return NormalAt(MakeKey(3, "elements"), static_cast<uint64_t>(i)); }

// What rows hold. In all of them ranks would choose different scales.
enum Rows { kGrowing, kFirstZero, kLastZero, kTiny, kOneNaN, kOneInfinite };
constexpr Rows kAllRows[] = {kGrowing, kFirstZero, kLastZero, kTiny, kOneNaN, kOneInfinite};

// Element (b, t, c) of a tensor [kBatch, kTokens, columns]. Rank r of n has the r-th of n equal parts of the rows.
double RowElement(Rows rows, int64_t row, int64_t column, int64_t columns) {
  constexpr int64_t kRows = kBatch * kTokens;
  const bool first = row < kRows / 4, last = row >= kRows - kRows / 4;
  const double element = ElementAt(row * columns + column);
  if (row == kRows - 1 && column == 3) {
    if (rows == kOneNaN) return std::numeric_limits<double>::quiet_NaN();
    if (rows == kOneInfinite) return std::numeric_limits<double>::infinity();
  }
  switch (rows) {
    case kFirstZero: return first ? 0 : std::ldexp(element, -30);
    case kLastZero: return last ? 0 : std::ldexp(element, -30);
    case kTiny: return std::ldexp(element, first ? -60 : -30);
    default: return std::ldexp(element, static_cast<int>(row));
  }
}

struct Rank {
  Rank(RankContext& ctx, bool rings, Rows rows = kGrowing)
      : nn{.device = ctx.device(), .stream = ctx.device().compute(), .seed = 5},
        rank(ctx.rank()),
        rows(rows),
        exchange(ctx.world(), {.sequence_parallel = true, .rings = rings}) {}
  Tensor Whole(int64_t columns) {
    Tensor t = nn.Activation(Shape{kBatch, kTokens, columns}, DType::kF32);
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data<float>()[i] = static_cast<float>(RowElement(rows, i / columns, i % columns, columns));
    return t;
  }
  // This rank's rows of it.
  Tensor Own(int64_t columns) {
    const Tensor whole = Whole(columns), rows = exchange.OwnRows(whole);
    Tensor own = nn.Activation(rows.shape(), DType::kF32);
    std::memcpy(own.raw(), rows.raw(), static_cast<size_t>(rows.bytes().value()));
    return own;
  }
  void Fill(nn::Parameter& p) {
    Tensor data = nn.device.NewTensor(p.shape(), DType::kF32, Category::kParameters),
           gradient = nn.device.NewTensor(p.shape(), DType::kF32, Category::kGradients);
    for (int64_t i = 0; i < data.numel(); ++i) data.data<float>()[i] = static_cast<float>(ElementAt(1000 + i));
    p.set_data(data), p.set_gradient(gradient), p.ZeroGradient();
  }
  nn::Context nn;
  int rank;
  Rows rows;
  TensorParallelExchange exchange;
};

bool Same(const Tensor& a, const Tensor& b) {
  return a.numel() == b.numel() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes().value())) == 0;
}

constexpr nn::Fp8Options kCurrent{nn::Fp8Recipe::kCurrent};

// y and dW of a layer split by columns are those of one rank that has all rows and this rank's rows of W.
TEST(Fp8Rows, ColumnsMultiplyTheCodesOfTheWhole) {
  for (const bool rings : {false, true}) {
    for (const Rows rows : kAllRows) {
      const int n = rows == kGrowing ? 2 : 4;  // a rank of four has all of the first, or last, rows
      test::ExpectOnRanks(n, [&](RankContext& ctx) -> std::string {
        Rank r(ctx, rings, rows);
        ColumnParallelLinear split(r.exchange, {.in = kIn, .out = kOut * n, .bias = false, .fp8 = kCurrent},
                                   {{.first = r.rank * kOut, .count = kOut}});
        nn::Linear whole({.in = kIn, .out = kOut, .bias = false, .fp8 = kCurrent});
        split.Finalize(), whole.Finalize();
        r.Fill(*split.Parameters()[0]), r.Fill(*whole.Parameters()[0]);
        nn::Saved saved, of_whole;
        const Tensor y = split.Forward(r.nn, r.Own(kIn), saved);
        if (!Same(y, whole.Forward(r.nn, r.Whole(kIn), of_whole))) return StrCat("y of rank ", r.rank);
        split.Backward(r.nn, r.Whole(kOut), saved);
        whole.Backward(r.nn, r.Whole(kOut), of_whole);
        if (!saved.empty()) return "something is left";
        return Same(split.Parameters()[0]->gradient(), whole.Parameters()[0]->gradient()) ? ""
                                                                                          : StrCat("dW of ", r.rank);
      });
    }
  }
}

// dx, dW and the bias's gradient of a layer split by rows, likewise: each rank has its own columns of W.
TEST(Fp8Rows, RowsMultiplyTheCodesOfTheWhole) {
  for (const bool rings : {false, true}) {
    for (const Rows rows : kAllRows) {
      test::ExpectOnRanks(4, [&](RankContext& ctx) -> std::string {
        Rank r(ctx, rings, rows);
        const bool bias = rows == kGrowing || rows == kTiny;
        RowParallelLinear split(r.exchange, {.in = kIn * 4, .out = kOut, .bias = bias, .fp8 = kCurrent});
        nn::Linear whole({.in = kIn, .out = kOut, .bias = false, .fp8 = kCurrent});
        split.Finalize(), whole.Finalize();
        for (nn::Parameter* p : split.Parameters()) r.Fill(*p);
        r.Fill(*whole.Parameters()[0]);
        nn::Saved saved, of_whole;
        split.Forward(r.nn, r.Whole(kIn), saved);
        whole.Forward(r.nn, r.Whole(kIn), of_whole);
        const Tensor dx = split.BackwardInput(r.nn, r.Own(kOut), saved);
        if (!Same(dx, whole.BackwardInput(r.nn, r.Whole(kOut), of_whole))) return StrCat("dx of rank ", r.rank);
        split.BackwardWeights(r.nn, saved);
        whole.BackwardWeights(r.nn, of_whole);
        if (!saved.empty()) return "something is left";
        if (!Same(split.Parameters()[0]->gradient(), whole.Parameters()[0]->gradient())) return "dW";
        if (!bias) return "";
        const Tensor own = r.Own(kOut);
        for (int64_t c = 0; c < kOut; ++c) {
          double sum = 0, all = 0;
          for (int64_t i = c; i < own.numel(); i += kOut) sum += own.data<float>()[i], all += std::abs(sum);
          if (std::abs(split.Parameters()[1]->gradient().data<float>()[c] - sum) > 1e-6 * all) return "db";
        }
        return "";
      });
    }
  }
}

}  // namespace fp8_rows_test
}  // namespace twofold
