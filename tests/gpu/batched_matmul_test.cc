#include <vector>

#include "tests/gpu/against_cpu.h"
#include "tests/gpu/rounding.h"

namespace twofold {
namespace batched_matmul_test {

constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

class BatchedMatMulOnGpu : public GpuTest {};

// Heads side by side in [batches, rows, heads / group * columns + 3], the first one element in. What lies between is
// written to by nobody: it must come out as it went in.
struct Layout {
  int64_t batches, heads, group, rows, columns;
  int64_t row() const { return heads / group * columns + 3; }
  Shape shape() const { return {batches, rows, row()}; }
  ops::Matrices Of(Tensor t) const { return {std::move(t), row(), rows * row(), columns, 1, group}; }
};

struct Case {
  int64_t batches, heads, m, n, k, group_b = 1, group_out = 1;
};

void Expect(DType type, DType out, const Case& c, bool ta, bool tb, bool accumulate) {
  ExpectLikeCpu(type, Rounding(type, out), [&](Operands& o) -> ops::Op {
    const Layout a{c.batches, c.heads, 1, ta ? c.k : c.m, ta ? c.m : c.k},
        b{c.batches, c.heads, c.group_b, tb ? c.n : c.k, tb ? c.k : c.n};
    const Layout to{c.batches, c.heads, c.group_out, c.m, c.n};
    Tensor whole = o.InOut(o.Values(
        to.shape(), [](int64_t i) { return 0.5 * static_cast<double>(i % 13) - 3; }, out));
    return ops::BatchedMatMul{.a = a.Of(o.Normal(a.shape())),
                              .b = b.Of(o.Normal(b.shape())),
                              .out = to.Of(std::move(whole)),
                              .batches = c.batches,
                              .heads = c.heads,
                              .m = c.m,
                              .n = c.n,
                              .k = c.k,
                              .transpose_a = ta,
                              .transpose_b = tb,
                              .accumulate = accumulate,
                              .alpha = 0.5};
  });
}

TEST_F(BatchedMatMulOnGpu, OfAllTypesAndTransposes) {
  for (DType type : kFloats) {
    for (int way = 0; way < 4; ++way) {
      for (const Case& c :
           {Case{1, 1, 1, 1, 1}, Case{2, 3, 31, 33, 17}, Case{3, 4, 5, 7, 65, 2}, Case{2, 6, 17, 9, 33, 3, 3}})
        Expect(type, type, c, way & 1, way & 2, false);
    }
  }
}

TEST_F(BatchedMatMulOnGpu, IntoAnyTypeAndAdding) {
  for (DType type : kFloats) {
    for (DType out : kFloats) {
      for (const bool accumulate : {false, true}) {
        for (const int64_t group : {1, 2, 4}) Expect(type, out, {2, 4, 9, 33, 5, 1, group}, true, false, accumulate);
      }
    }
  }
}

// Attention over a projection [b, t, (queries, keys, values) x heads x d], scores apart.
TEST_F(BatchedMatMulOnGpu, OfAttention) {
  constexpr int64_t kB = 2, kH = 3, kT = 33, kD = 16, kRow = 3 * kH * kD;
  for (DType type : kFloats) {
    ExpectLikeCpu(type, Rounding(type), [&](Operands& o) -> ops::Op {
      const Tensor projected = o.Normal({kB, kT, kRow});
      const auto part = [&](int64_t first) { return ops::Matrices{projected, kRow, kT * kRow, kD, first}; };
      return ops::BatchedMatMul{.a = part(0),
                                .b = part(kH * kD),
                                .out = {o.Out({kB, kH, kT, kT}), kT, kH * kT * kT, kT * kT},
                                .batches = kB,
                                .heads = kH,
                                .m = kT,
                                .n = kT,
                                .k = kD,
                                .transpose_b = true,
                                .alpha = 0.25};
    });
  }
}

}  // namespace batched_matmul_test
}  // namespace twofold
