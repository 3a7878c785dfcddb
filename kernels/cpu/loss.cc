// Cross-entropy of logits, row by row, in three passes; all but the first find the row in cache.
#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

int64_t Target(const Tensor& targets, int64_t row, int64_t classes) {
  const int64_t id = targets.dtype() == DType::kU8 ? targets.data<uint8_t>()[row] : targets.data<int32_t>()[row];
  TWOFOLD_CHECK_GE(id, 0);
  TWOFOLD_CHECK_LT(id, classes);
  return id;
}

// log sum exp of a row, from its largest element.
template <class A>
A LogSumExp(const Source<A>& logits, int64_t at, int64_t classes) {
  A buffer[kChunk], largest = -std::numeric_limits<A>::infinity();
  InChunks(0, classes, [&](int64_t first, int64_t count) {
    const A of_chunk = MaxOf(count, logits.At(at + first, count, buffer));
    largest = of_chunk > largest ? of_chunk : largest;
  });
  A sum = 0;
  InChunks(0, classes, [&](int64_t first, int64_t count) {
    const A* x = logits.At(at + first, count, buffer);
    sum += SumOf<A>(count, [x, largest](int64_t i) { return Exp(x[i] - largest); });
  });
  return largest + std::log(sum);
}

}  // namespace

void Compute(const ops::CrossEntropyForward& o, Context& c) {
  const int64_t classes = Columns(o.logits);
  VisitWide(o.logits.dtype(), [&]<class A>() {
    const Source<A> logits(o.logits);
    c.pool.ParallelForEach(o.logits.dim(0), RowGrain(classes), [&](int64_t row) {
      A one[1];
      const A lse = LogSumExp(logits, row * classes, classes);
      o.lse.data<A>()[row] = lse;
      o.losses.data<A>()[row] = lse - *logits.At(row * classes + Target(o.targets, row, classes), 1, one);
    });
  });
}

void Compute(const ops::CrossEntropyBackward& o, Context& c) {
  const int64_t classes = Columns(o.logits);
  VisitWide(o.logits.dtype(), [&]<class A>() {
    const Source<A> logits(o.logits);
    const Sink<A> dlogits(o.dlogits);
    const A scale = static_cast<A>(o.scale);
    c.pool.ParallelForEach(o.logits.dim(0), RowGrain(classes), [&](int64_t row) {
      const A lse = o.lse.data<A>()[row];
      const int64_t target = Target(o.targets, row, classes);
      InChunks(0, classes, [&](int64_t first, int64_t count) {
        A buffer[kChunk], result[kChunk], of_target = 0;
        const A* x = logits.At(row * classes + first, count, buffer);
        A* dx = dlogits.At(row * classes + first, result);
        const bool here = target >= first && target < first + count;
        // Computed now, because dlogits may alias logits.
        if (here) of_target = scale * (Exp(x[target - first] - lse) - A(1));
        MapChunk(count, dx, x, [scale, lse](A v) { return scale * Exp(v - lse); });
        if (here) dx[target - first] = of_target;
        dlogits.Put(row * classes + first, count, dx);
      });
    });
  });
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
        count += place == Target(o.targets, row, classes);
      }
      return static_cast<double>(count);
    };
    A& out = *o.out.data<A>();
    out = (o.accumulate ? out : A(0)) + static_cast<A>(c.pool.ParallelSum(o.logits.dim(0), RowGrain(classes), correct));
  });
}

}  // namespace twofold::cpu
