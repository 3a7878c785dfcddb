// Cross-entropy with logits split over ranks: the computation between the sums over ranks.
#include <cmath>
#include <limits>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

int64_t Target(const Tensor& targets, int64_t row) {
  return targets.dtype() == DType::kU8 ? targets.data<uint8_t>()[row] : targets.data<int32_t>()[row];
}

// Calls row(r) for every row of logits.
template <class Row>
void ForRows(const Tensor& logits, Context& c, const Row& row) {
  c.pool.ParallelForEach(logits.dim(0), RowGrain(Columns(logits)), [&](int64_t r) { row(r); });
}

}  // namespace

void Compute(const ops::SplitMax& o, Context& c) {
  VisitWide(o.logits.dtype(), [&]<class A>() {
    const Source<A> logits(o.logits);
    ForRows(o.logits, c, [&](int64_t row) {
      A buffer[kChunk], largest = -std::numeric_limits<A>::infinity();
      InChunks(0, o.classes, [&](int64_t first, int64_t count) {
        const A of_chunk = MaxOf(count, logits.At(row * Columns(o.logits) + first, count, buffer));
        largest = of_chunk > largest ? of_chunk : largest;
      });
      o.largest.data<A>()[row] = largest;
    });
  });
}

void Compute(const ops::SplitSums& o, Context& c) {
  const int64_t rows = o.logits.dim(0), columns = Columns(o.logits);
  const bool ties = o.sums.numel() == 3 * rows;
  VisitWide(o.logits.dtype(), [&]<class A>() {
    const Source<A> logits(o.logits);
    A* sums = o.sums.data<A>();
    ForRows(o.logits, c, [&](int64_t row) {
      const A largest = o.largest.data<A>()[row];
      const int64_t target = Target(o.targets, row) - o.first;
      A buffer[kChunk], sum = 0, of_target = 0;
      int64_t before = 0;
      InChunks(0, o.classes, [&](int64_t first, int64_t count) {
        const A* x = logits.At(row * columns + first, count, buffer);
        sum += SumOf<A>(count, [x, largest](int64_t i) { return Exp(x[i] - largest); });
        if (target >= first && target < first + count) of_target = x[target - first] - largest;
        for (int64_t i = 0; ties && i < count && first + i < target; ++i) before += x[i] == largest;
      });
      sums[row] = sum;
      sums[rows + row] = of_target;
      if (ties) sums[2 * rows + row] = static_cast<A>(before);
    });
  });
}

void Compute(const ops::SplitLosses& o, Context&) {
  VisitWide(o.largest.dtype(), [&]<class A>() {
    const int64_t rows = o.largest.numel();
    const A *largest = o.largest.data<A>(), *sums = o.sums.data<A>();
    for (int64_t row = 0; row < rows; ++row) {
      const A log = std::log(sums[row]);
      o.losses.data<A>()[row] = log - sums[rows + row];
      o.lse.data<A>()[row] = largest[row] + log;
    }
  });
}

void Compute(const ops::SplitBackward& o, Context& c) {
  const int64_t columns = Columns(o.logits);
  VisitWide(o.logits.dtype(), [&]<class A>() {
    const Source<A> logits(o.logits);
    const Sink<A> dlogits(o.dlogits);
    const A scale = static_cast<A>(o.scale);
    ForRows(o.logits, c, [&](int64_t row) {
      const A lse = o.lse.data<A>()[row];
      const int64_t target = Target(o.targets, row) - o.first;
      InChunks(0, o.classes, [&](int64_t first, int64_t count) {
        A buffer[kChunk], result[kChunk], of_target = 0;
        const A* x = logits.At(row * columns + first, count, buffer);
        A* dx = dlogits.At(row * columns + first, result);
        const bool here = target >= first && target < first + count;
        // Computed now, because dlogits may alias logits.
        if (here) of_target = scale * (Exp(x[target - first] - lse) - A(1));
        MapChunk(count, dx, x, [scale, lse](A v) { return scale * Exp(v - lse); });
        if (here) dx[target - first] = of_target;
        dlogits.Put(row * columns + first, count, dx);
      });
      SetZero(o.dlogits, row * columns + o.classes, columns - o.classes);
    });
  });
}

void Compute(const ops::SplitCorrect& o, Context&) {
  VisitWide(o.sums.dtype(), [&]<class A>() {
    const int64_t rows = o.sums.numel() / 3;
    const A* sums = o.sums.data<A>();
    int64_t count = 0;
    for (int64_t row = 0; row < rows; ++row) count += sums[rows + row] == A(0) && sums[2 * rows + row] == A(0);
    A& out = *o.out.data<A>();
    out = (o.accumulate ? out : A(0)) + static_cast<A>(count);
  });
}

}  // namespace twofold::cpu
