// Cross-entropy of logits whose classes are split over ranks: the work between the sums over ranks. One thread block
// per row.
#include <limits>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_loop.h"

namespace twofold::cuda {
namespace {

constexpr int kBlock = 512;

template <class A>
constexpr A kNone = -std::numeric_limits<A>::infinity();

template <class T>
__global__ void __launch_bounds__(kBlock) Largest(const T* logits, int64_t columns, int64_t classes, Wide<T>* largest) {
  using A = Wide<T>;
  const int64_t row = blockIdx.x;
  A mine = kNone<A>;
  const auto look = [&](int64_t, A value) { mine = value > mine ? value : mine; };
  ForRow(
      logits + row * columns, classes, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
      [&](int64_t i, const auto& values) {
#pragma unroll
        for (int k = 0; k < kPerLoad<T>; ++k) look(i, values[k]);
      },
      look);
  mine = BlockReduce(mine, MaximumOf(), kNone<A>);
  if (threadIdx.x == 0) largest[row] = mine;
}

// kTies: the third sum is requested.
template <class T, bool kTies>
__global__ void __launch_bounds__(kBlock) Sums(const T* logits, Ids targets, const Wide<T>* largest, int64_t rows,
                                               int64_t columns, int64_t first, int64_t classes, Wide<T>* sums) {
  using A = Wide<T>;
  const int64_t row = blockIdx.x, target = targets[row] - first;
  const T* x = logits + row * columns;
  const A top = largest[row];
  A sum = 0;
  int before = 0;
  const auto add = [&](int64_t i, A value) {
    sum += FastExp(value - top);
    if constexpr (kTies) before += value == top && i < target;
  };
  ForRow(
      x, classes, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
      [&](int64_t i, const auto& values) {
#pragma unroll
        for (int k = 0; k < kPerLoad<T>; ++k) add(i + k, values[k]);
      },
      add);
  sum = BlockSum(sum);
  if constexpr (kTies) before = BlockSum(before);
  if (threadIdx.x != 0) return;
  sums[row] = sum;
  sums[rows + row] = target >= 0 && target < classes ? As<A>(x[target]) - top : A(0);
  if constexpr (kTies) sums[2 * rows + row] = static_cast<A>(before);
}

template <class A>
__global__ void Losses(const A* largest, const A* sums, int64_t rows, A* losses, A* lse) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const A log = std::log(sums[row]);
  losses[row] = log - sums[rows + row];
  lse[row] = largest[row] + log;
}

// dlogits may alias logits: the target's logit is read first, and its gradient is written after all others.
template <class T>
__global__ void __launch_bounds__(kBlock)
    Gradients(const T* logits, Ids targets, const Wide<T>* lse, int64_t columns, int64_t first, int64_t classes,
              Wide<T> scale, T* dlogits, bool packs) {
  using A = Wide<T>;
  const int64_t row = blockIdx.x, target = targets[row] - first;
  const bool here = threadIdx.x == 0 && target >= 0 && target < classes;
  const T* x = logits + row * columns;
  T* dx = dlogits + row * columns;
  const A log = lse[row], of_target = here ? As<A>(x[target]) : A(0);
  __syncthreads();
  ForRow(
      x, classes, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
      [&](int64_t i, const auto& values) {
        A out[kPerLoad<T>];
#pragma unroll
        for (int k = 0; k < kPerLoad<T>; ++k) out[k] = scale * FastExp(values[k] - log);
        StoreSome(dx + i, packs, int64_t{kPerLoad<T>}, out);
      },
      [&](int64_t i, A value) { Store(dx + i, scale * FastExp(value - log)); });
  for (int64_t i = classes + threadIdx.x; i < columns; i += blockDim.x) Store(dx + i, A(0));
  __syncthreads();
  if (here) Store(dx + target, scale * (FastExp(of_target - log) - A(1)));
}

template <class A>
__global__ void __launch_bounds__(1024) CountRight(const A* sums, int64_t rows, A* out, bool accumulate) {
  int count = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x)
    count += sums[rows + row] == A(0) && sums[2 * rows + row] == A(0);
  count = BlockSum(count);
  if (threadIdx.x == 0) *out = (accumulate ? *out : A(0)) + static_cast<A>(count);
}

dim3 GridOf(int64_t rows) { return dim3(static_cast<unsigned>(rows)); }

}  // namespace

void Compute(const ops::SplitMax& o, const Context& c) {
  ForFloat(o.logits.dtype(), [&]<class T>() {
    Launch(Largest<T>, GridOf(o.logits.dim(0)), dim3(kBlock), 0, c.stream, At<T>(o.logits), Columns(o.logits),
           o.classes, At<Wide<T>>(o.largest));
  });
}

void Compute(const ops::SplitSums& o, const Context& c) {
  const int64_t rows = o.logits.dim(0);
  ForFloat(o.logits.dtype(), [&]<class T>() {
    Launch(o.sums.numel() == 3 * rows ? Sums<T, true> : Sums<T, false>, GridOf(rows), dim3(kBlock), 0, c.stream,
           At<T>(o.logits), IdsOf(o.targets), At<Wide<T>>(o.largest), rows, Columns(o.logits), o.first, o.classes,
           At<Wide<T>>(o.sums));
  });
}

void Compute(const ops::SplitLosses& o, const Context& c) {
  constexpr int kThreads = 256;
  ForFloat(o.largest.dtype(), [&]<class T>() {
    using A = Wide<T>;
    const int64_t rows = o.largest.numel();
    Launch(Losses<A>, dim3(static_cast<unsigned>(CeilDiv(rows, kThreads))), dim3(kThreads), 0, c.stream,
           At<A>(o.largest), At<A>(o.sums), rows, At<A>(o.losses), At<A>(o.lse));
  });
}

void Compute(const ops::SplitBackward& o, const Context& c) {
  ForFloat(o.logits.dtype(), [&]<class T>() {
    const bool packs = (o.logits.address() - o.dlogits.address()) % 16 == 0;
    Launch(Gradients<T>, GridOf(o.logits.dim(0)), dim3(kBlock), 0, c.stream, At<T>(o.logits), IdsOf(o.targets),
           At<Wide<T>>(o.lse), Columns(o.logits), o.first, o.classes, static_cast<Wide<T>>(o.scale), At<T>(o.dlogits),
           packs);
  });
}

void Compute(const ops::SplitCorrect& o, const Context& c) {
  ForFloat(o.sums.dtype(), [&]<class T>() {
    using A = Wide<T>;
    Launch(CountRight<A>, dim3(1), dim3(1024), 0, c.stream, At<A>(o.sums), o.sums.numel() / 3, At<A>(o.out),
           o.accumulate);
  });
}

}  // namespace twofold::cuda
