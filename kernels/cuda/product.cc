#include "kernels/cuda/product.h"

#include <algorithm>

namespace twofold::cuda {
namespace {

using Loop = ProductPlan::Loop;

// A row-major matrix [rows, columns] with rows `stride` elements apart, as a column-major matrix.
LibraryMatrix Transposed(DType type, int64_t rows, int64_t columns, int64_t stride) {
  return {.type = type, .rows = columns, .columns = rows, .leading = std::max<int64_t>(stride, 1)};
}

LibraryScales ScalesOf(ops::Fp8Blocks blocks) {
  if (blocks == ops::Fp8Blocks::kTensor) return LibraryScales::kOne;
  return blocks == ops::Fp8Blocks::kSquare ? LibraryScales::kSquares : LibraryScales::kInnerBlocks;
}
LibraryMatrix Operand(const Tensor& t, const ops::Fp8Scaling& scaling) {
  LibraryMatrix matrix = Transposed(t.dtype(), t.dim(0), t.dim(1), t.dim(1));
  if (!scaling.empty()) matrix.format = scaling.format, matrix.scales = ScalesOf(scaling.blocks);
  return matrix;
}

// The distance between an operand's matrices of two heads that differ by `heads`, a multiple or a divisor of its group.
int64_t Step(const ops::Matrices& m, int64_t heads) { return heads % m.group == 0 ? heads / m.group * m.head : 0; }

// Loops over batches and heads such that every operand has a constant stride in each loop. Heads are decomposed into
// mixed-radix digits whose place values are the group sizes.
std::vector<Loop> LoopsOver(const ops::BatchedMatMul& o, const ops::Matrices& out) {
  TWOFOLD_CHECK((o.batches == 1 || out.batch > 0) && (o.heads == out.group || out.head > 0),
                "output matrices lie apart");
  std::vector<Loop> loops = {{o.batches, o.a.batch, o.b.batch, out.batch}};
  std::vector<int64_t> places = {1, o.a.group, o.b.group, out.group, o.heads};
  std::sort(places.begin(), places.end());
  for (size_t i = places.size() - 1; i > 0; --i) {
    TWOFOLD_CHECK(places[i] % places[i - 1] == 0, "every group size is a multiple of the next smaller one");
    loops.push_back(
        {places[i] / places[i - 1], Step(o.a, places[i - 1]), Step(o.b, places[i - 1]), Step(out, places[i - 1])});
  }
  return loops;
}

// Merges adjacent loops that are equivalent to one loop: the inner one ends where the outer one's next step begins.
std::vector<Loop> Merged(const std::vector<Loop>& loops) {
  std::vector<Loop> merged;
  for (const Loop& l : loops) {
    if (l.count == 1) continue;
    if (!merged.empty()) {
      Loop& outer = merged.back();
      if (outer.a == l.count * l.a && outer.b == l.count * l.b && outer.d == l.count * l.d) {
        outer = {outer.count * l.count, l.a, l.b, l.d};
        continue;
      }
    }
    merged.push_back(l);
  }
  return merged;
}

}  // namespace

ProductPlan PlanOf(const ops::MatMul& o, bool copy, bool bias, bool epilogue) {
  const DType wide = ops::AccumulationType(o.a.dtype());
  return {.product = {.a = Operand(o.b, o.b_scaling),
                      .b = Operand(o.a, o.a_scaling),
                      .d = Transposed(copy ? wide : o.out.dtype(), o.out.dim(0), o.out.dim(1), o.out.dim(1)),
                      .transpose_a = o.transpose_b,
                      .transpose_b = o.transpose_a,
                      .bias = bias,
                      .arithmetic = wide,
                      .epilogue = epilogue ? o.epilogue : ops::MatMul::kNone,
                      .beta = o.accumulate && !copy ? 1.0 : 0.0}};
}

ProductPlan PlanOf(const ops::BatchedMatMul& o, bool copy) {
  const bool ta = o.transpose_a, tb = o.transpose_b;
  const DType wide = ops::AccumulationType(o.a.tensor.dtype());
  ops::Matrices out = o.out;
  if (copy) {
    out.stride = o.n, out.head = o.m * o.n, out.first = 0;
    out.batch = o.heads / out.group * out.head;
  }
  ProductPlan plan{.product = {.a = Transposed(o.b.tensor.dtype(), tb ? o.n : o.k, tb ? o.k : o.n, o.b.stride),
                               .b = Transposed(o.a.tensor.dtype(), ta ? o.k : o.m, ta ? o.m : o.k, o.a.stride),
                               .d = Transposed(copy ? wide : out.tensor.dtype(), o.m, o.n, out.stride),
                               .transpose_a = tb,
                               .transpose_b = ta,
                               .arithmetic = wide,
                               .alpha = o.alpha,
                               .beta = o.accumulate && !copy ? 1.0 : 0.0},
                   .a_first = o.b.first,
                   .b_first = o.a.first,
                   .d_first = out.first};
  std::vector<Loop> loops = Merged(LoopsOver(o, out));
  for (Loop& l : loops) std::swap(l.a, l.b);
  size_t longest = loops.size();
  for (size_t i = 0; i < loops.size(); ++i) {
    if (loops[i].d != 0 && (longest == loops.size() || loops[i].count > loops[longest].count)) longest = i;
  }
  if (longest < loops.size()) {
    const Loop at_once = loops[longest];
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(longest));
    plan.product.batch = at_once.count;
    plan.product.a.batch_stride = at_once.a;
    plan.product.b.batch_stride = at_once.b;
    plan.product.d.batch_stride = at_once.d;
  }
  plan.loops = std::move(loops);
  return plan;
}

LibraryProduct AlongSum(LibraryProduct p) {
  const auto turn = [](LibraryMatrix& m) {
    std::swap(m.rows, m.columns);
    m.leading = std::max<int64_t>(m.rows, 1);
  };
  if (!p.transpose_a) turn(p.a);
  if (p.transpose_b) turn(p.b);
  p.transpose_a = true, p.transpose_b = false;
  return p;
}

}  // namespace twofold::cuda
