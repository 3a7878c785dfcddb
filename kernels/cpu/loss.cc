// Cross-entropy of logits, row by row, in three passes; all but the first find the row in cache. And, for classes that
// are split over ranks, the computation between the sums over ranks.
#include <cmath>
#include <limits>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

int64_t TargetOf(const Tensor& targets, int64_t row) {
  return targets.dtype() == DType::kU8 ? targets.data<uint8_t>()[row] : targets.data<int32_t>()[row];
}

// The same, checked to be one of the classes.
int64_t CheckedTarget(const Tensor& targets, int64_t row, int64_t classes) {
  const int64_t id = TargetOf(targets, row);
  TWOFOLD_CHECK_GE(id, 0);
  TWOFOLD_CHECK_LT(id, classes);
  return id;
}

// Calls row(r) for every row of logits.
template <class Row>
void ForRows(const Tensor& logits, Context& c, const Row& row) {
  c.pool.ParallelForEach(logits.dim(0), RowGrain(Columns(logits)), [&](int64_t r) { row(r); });
}

// The largest of `classes` logits from element `at` on.
template <class A>
A LargestOf(const Source<A>& logits, int64_t at, int64_t classes) {
  A buffer[kChunk], largest = -std::numeric_limits<A>::infinity();
  InChunks(0, classes, [&](int64_t first, int64_t count) {
    const A of_chunk = MaxOf(count, logits.At(at + first, count, buffer));
    largest = of_chunk > largest ? of_chunk : largest;
  });
  return largest;
}

template <class A>
A LogSumExp(const Source<A>& logits, int64_t at, int64_t classes) {
  A buffer[kChunk];
  const A largest = LargestOf(logits, at, classes),
          sum = SumOfChunks<A>(classes, [&](int64_t first, int64_t count) {
            const A* x = logits.At(at + first, count, buffer);
            return SumOf<A>(count, [x, largest](int64_t i) { return Exp(x[i] - largest); });
          });
  return largest + std::log(sum);
}

// dx[i] = scale * (softmax - onehot) for a piece of a row; `target`: its place in the piece, if it is there. dx may be
// x.
template <class A>
void GradientOfPiece(const A* x, int64_t count, A scale, A lse, int64_t target, A* dx) {
  const bool here = target >= 0 && target < count;
  const A of_target = here ? scale * (Exp(x[target] - lse) - A(1)) : A(0);
  MapChunk(count, dx, x, [scale, lse](A v) { return scale * Exp(v - lse); });
  if (here) dx[target] = of_target;
}

// The gradients of the first `classes` columns; target_of(row) is the row's target among them.
template <class Op, class TargetOf>
void Backward(const Op& o, int64_t classes, Context& c, const TargetOf& target_of) {
  const int64_t columns = Columns(o.logits);
  VisitWide(o.logits.dtype(), [&]<class A>() {
    const Source<A> logits(o.logits);
    const Sink<A> dlogits(o.dlogits);
    const A scale = static_cast<A>(o.scale);
    ForRows(o.logits, c, [&](int64_t row) {
      const A lse = o.lse.template data<A>()[row];
      const int64_t target = target_of(row);
      InChunks(0, classes, [&](int64_t first, int64_t count) {
        A buffer[kChunk], result[kChunk];
        A* dx = dlogits.At(row * columns + first, result);
        GradientOfPiece(logits.At(row * columns + first, count, buffer), count, scale, lse, target - first, dx);
        dlogits.Put(row * columns + first, count, dx);
      });
      SetZero(o.dlogits, row * columns + classes, columns - classes);
    });
  });
}

// out = count, or += count.
template <class A>
void StoreCount(const Tensor& out, bool accumulate, double count) {
  A& to = *out.data<A>();
  to = (accumulate ? to : A(0)) + static_cast<A>(count);
}

}  // namespace

void Compute(const ops::CrossEntropyForward& o, Context& c) {
  const int64_t classes = Columns(o.logits);
  VisitWide(o.logits.dtype(), [&]<class A>() {
    const Source<A> logits(o.logits);
    ForRows(o.logits, c, [&](int64_t row) {
      A one[1];
      const A lse = LogSumExp(logits, row * classes, classes);
      o.lse.data<A>()[row] = lse;
      o.losses.data<A>()[row] = lse - *logits.At(row * classes + CheckedTarget(o.targets, row, classes), 1, one);
    });
  });
}

void Compute(const ops::CrossEntropyBackward& o, Context& c) {
  const int64_t classes = Columns(o.logits);
  Backward(o, classes, c, [&](int64_t row) { return CheckedTarget(o.targets, row, classes); });
}

void Compute(const ops::CountCorrect& o, Context& c) {
  const int64_t classes = Columns(o.logits);
  VisitWide(o.logits.dtype(), [&]<class A>() {
    const Source<A> logits(o.logits);
    const auto correct = [&](int64_t begin, int64_t end) {
      int64_t count = 0;
      for (int64_t row = begin; row < end; ++row) {
        A buffer[kChunk], largest = -std::numeric_limits<A>::infinity();
        int64_t place = -1;
        InChunks(0, classes, [&](int64_t first, int64_t n) {
          const A* x = logits.At(row * classes + first, n, buffer);
          for (int64_t i = 0; i < n; ++i) {
            if (x[i] > largest) largest = x[i], place = first + i;
          }
        });
        count += place == CheckedTarget(o.targets, row, classes);
      }
      return static_cast<double>(count);
    };
    StoreCount<A>(o.out, o.accumulate, c.pool.ParallelSum(o.logits.dim(0), RowGrain(classes), correct));
  });
}

// ---- Classes split over ranks ----

void Compute(const ops::SplitMax& o, Context& c) {
  VisitWide(o.logits.dtype(), [&]<class A>() {
    const Source<A> logits(o.logits);
    ForRows(o.logits, c,
            [&](int64_t row) { o.largest.data<A>()[row] = LargestOf(logits, row * Columns(o.logits), o.classes); });
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
      const int64_t target = TargetOf(o.targets, row) - o.first;
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
  Backward(o, o.classes, c, [&](int64_t row) { return TargetOf(o.targets, row) - o.first; });
}

void Compute(const ops::SplitCorrect& o, Context&) {
  VisitWide(o.sums.dtype(), [&]<class A>() {
    const int64_t rows = o.sums.numel() / 3;
    const A* sums = o.sums.data<A>();
    int64_t count = 0;
    for (int64_t row = 0; row < rows; ++row) count += sums[rows + row] == A(0) && sums[2 * rows + row] == A(0);
    StoreCount<A>(o.out, o.accumulate, static_cast<double>(count));
  });
}

}  // namespace twofold::cpu
