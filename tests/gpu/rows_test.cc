// Operations along rows and tables. Tolerances: own_rounding.h.
#include "tests/gpu/own_rounding.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace rows_test {

using Rows = GpuTest;

struct Size {
  int64_t rows, columns;
};
constexpr Size kSizes[] = {{0, 3}, {1, 1}, {3, 31}, {33, 127}, {129, 257}, {40, 512}, {300, 64}};

// f(type, type of the output, size, accumulate) of all.
template <class F>
void ForGradients(F f) {
  for (DType t : kFloats) {
    for (DType out : kFloats) {
      for (bool accumulate : {false, true}) {
        SCOPED_TRACE(Name(t) + " to " + Name(out) + (accumulate ? " accumulating" : ""));
        for (const Size& s : kSizes) {
          if (t == out || s.columns == 127 || s.columns == 512) f(t, out, s, accumulate);
        }
      }
    }
  }
}
// Of sums made in the type of the terms.
double SumRounding(DType t, DType out) { return std::max(OwnRounding(out), t == DType::kF64 ? 1e-13 : 1e-6); }
Tensor Gradient(Operands& o, const Shape& shape, DType type, bool accumulate) {
  if (!accumulate) return o.OutOf(shape, type);
  return o.InOut(o.Values(
      shape, [](int64_t i) { return static_cast<double>(i % 13) / 4 - 1; }, type));
}

TEST_F(Rows, ColumnSum) {
  ForGradients([](DType t, DType out, Size s, bool accumulate) {
    ExpectLikeCpu(t, SumRounding(t, out), [=](Operands& o) -> ops::Op {
      const Tensor in = o.Normal({s.rows, s.columns});
      return ops::ColumnSum{.in = in, .out = Gradient(o, {s.columns}, out, accumulate), .accumulate = accumulate};
    });
  });
}

TEST_F(Rows, AddBias) {
  for (DType t : kFloats) {
    for (const Size& s : kSizes) {
      ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
        return ops::AddBias{
            .x = o.Normal({s.rows, s.columns}), .bias = o.Normal({s.columns}), .out = o.Out({s.rows, s.columns})};
      });
      ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {  // in place
        const Tensor x = o.InOut(o.Normal({s.rows, s.columns}));
        return ops::AddBias{.x = x, .bias = o.Normal({s.columns}), .out = x};
      });
    }
  }
}

TEST_F(Rows, EmbeddingForward) {
  for (DType t : kFloats) {
    for (DType ids : {DType::kI32, DType::kU8}) {
      for (const Size& s : kSizes) {
        ExpectLikeCpu(t, 0, [=](Operands& o) -> ops::Op {
          return ops::EmbeddingForward{
              .ids = o.Ids({s.rows}, 11, ids), .table = o.Normal({11, s.columns}), .out = o.Out({s.rows, s.columns})};
        });
        ExpectLikeCpu(t, 0, [=](Operands& o) -> ops::Op {  // the table holds ids 5 to 15 of 30
          return ops::EmbeddingForward{.ids = o.Ids({s.rows}, 30, ids),
                                       .table = o.Normal({11, s.columns}),
                                       .out = o.Out({s.rows, s.columns}),
                                       .first = 5,
                                       .vocab = 30};
        });
      }
    }
  }
}

TEST_F(Rows, EmbeddingBackward) {
  ForGradients([](DType t, DType out, Size s, bool accumulate) {
    for (int64_t vocab : {1, 7, 1000}) {  // one id's rows in all pieces; in several; most once
      ExpectLikeCpu(t, SumRounding(t, out), [=](Operands& o) -> ops::Op {
        const Tensor ids = o.Ids({s.rows}, vocab), dy = o.Normal({s.rows, s.columns});
        return ops::EmbeddingBackward{
            .ids = ids, .dy = dy, .dtable = Gradient(o, {vocab, s.columns}, out, accumulate), .accumulate = accumulate};
      });
    }
  });
}

TEST_F(Rows, EmbeddingBackwardOfAPartOfTheTable) {
  for (DType t : {DType::kF32, DType::kBF16}) {
    for (DType ids : {DType::kI32, DType::kU8}) {
      for (bool accumulate : {false, true}) {
        ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
          const Tensor which = o.Ids({333}, 30, ids), dy = o.Normal({333, 40});
          return ops::EmbeddingBackward{.ids = which,
                                        .dy = dy,
                                        .dtable = Gradient(o, {11, 40}, t, accumulate),
                                        .accumulate = accumulate,
                                        .first = 5,
                                        .vocab = 30};
        });
      }
    }
  }
}

TEST_F(Rows, EmbeddingBackwardOfManyIds) {  // several runs to be merged, more than once for the last
  for (int64_t n : {2048, 2049, 5000, 40000}) {
    ExpectLikeCpu(DType::kF32, 1e-6, [=](Operands& o) -> ops::Op {
      const Tensor ids = o.Values(
          {n}, [](int64_t i) { return static_cast<double>(i * 7919 % 3001 % (i % 3 == 0 ? 5 : 3001)); }, DType::kI32);
      return ops::EmbeddingBackward{.ids = ids, .dy = o.Normal({n, 3}), .dtable = o.Out({3001, 3})};
    });
  }
}

TEST_F(Rows, PositionForward) {
  for (DType t : kFloats) {
    for (const Size& s : kSizes) {
      for (const ops::IndexMap& where :
           {ops::IndexMap{}, ops::IndexMap{.block = s.rows, .blocks = 2, .offset = {1, s.rows + 4}}}) {
        ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
          const Shape shape{3, s.rows * where.blocks, s.columns};
          return ops::PositionForward{.x = o.Normal(shape),
                                      .table = o.Normal({2 * s.rows + 5, s.columns}),
                                      .out = o.Out(shape),
                                      .positions = where};
        });
      }
    }
  }
}

TEST_F(Rows, PositionBackward) {
  ForGradients([](DType t, DType out, Size s, bool accumulate) {
    for (const ops::IndexMap& where :
         {ops::IndexMap{}, ops::IndexMap{.block = s.rows, .blocks = 2, .offset = {1, s.rows + 4}}}) {
      for (int64_t more : {0, 3}) {  // positions that have no rows
        ExpectLikeCpu(t, SumRounding(t, out), [=](Operands& o) -> ops::Op {
          const int64_t places = where.blocks == 2 ? 2 * s.rows + 4 : s.rows;
          const Tensor dy = o.Normal({3, s.rows * where.blocks, s.columns});
          return ops::PositionBackward{.dy = dy,
                                       .dtable = Gradient(o, {places + more, s.columns}, out, accumulate),
                                       .accumulate = accumulate,
                                       .positions = where};
        });
      }
    }
  });
}

TEST_F(Rows, CopyColumns) {
  struct Columns {
    int64_t in, out, from, to, count;
  };
  for (DType t : kFloats) {
    for (DType out : kFloats) {
      for (bool accumulate : {false, true}) {
        for (const Columns& k : {Columns{96, 64, 32, 16, 48},
                                 {31, 33, 1, 2, 30},
                                 {257, 300, 0, 3, 257},
                                 {8, 8, 8, 8, 0},
                                 {64, 16, 33, 0, 16}}) {
          SCOPED_TRACE(Name(t) + " to " + Name(out));
          ExpectLikeCpu(t, OwnRounding(out), [=](Operands& o) -> ops::Op {
            const Tensor in = o.Normal({37, k.in});
            return ops::CopyColumns{.in = in,
                                    .out = Gradient(o, {37, k.out}, out, true),
                                    .in_column = k.from,
                                    .out_column = k.to,
                                    .columns = k.count,
                                    .accumulate = accumulate};
          });
        }
      }
    }
  }
}

}  // namespace rows_test
}  // namespace twofold
