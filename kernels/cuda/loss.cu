// Cross-entropy of logits: one thread block per row, which is read once. And, for classes that are split over ranks,
// the work between the sums over ranks.
#include <limits>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_loop.h"

namespace twofold::cuda {
namespace {

constexpr int kBlock = 512;

// The largest element so far and the sum of exp(x - largest). A new element may raise the largest, and the sum is then
// rescaled (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", algorithm 3).
template <class A>
struct OnlineSum {
  A largest = std::numeric_limits<A>::lowest(), sum = 0;
  template <int N>
  __device__ void Add(const A (&x)[N]) {
    A top = largest;
#pragma unroll
    for (int i = 0; i < N; ++i) top = x[i] > top ? x[i] : top;
    A of_pack = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) of_pack += FastExp(x[i] - top);
    sum = sum * FastExp(largest - top) + of_pack;
    largest = top;
  }
};

// A target that is not one of the classes gives NaN.
template <class T>
__global__ void __launch_bounds__(kBlock)
    Losses(const T* logits, Ids targets, int64_t classes, Wide<T>* losses, Wide<T>* lse) {
  using A = Wide<T>;
  const int64_t row = blockIdx.x;
  const T* x = logits + row * classes;
  OnlineSum<A> mine;
  ForRow(
      x, classes, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
      [&](int64_t, const auto& values) { mine.Add(values); }, [&](int64_t, A value) { mine.Add({value}); });
  const A largest = BlockReduce(mine.largest, MaximumOf(), std::numeric_limits<A>::lowest());
  const A sum = BlockSum(mine.sum * FastExp(mine.largest - largest));
  if (threadIdx.x != 0) return;
  const A log = std::log(sum);
  const int64_t target = targets[row];
  lse[row] = largest + log;
  losses[row] =
      target >= 0 && target < classes ? log - (As<A>(x[target]) - largest) : std::numeric_limits<A>::quiet_NaN();
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

// A row is correct if no class has a larger logit than the target, no earlier class an equal one, and the target's
// logit is more than minus infinity.
template <class T>
__global__ void __launch_bounds__(kBlock) AreCorrect(const T* logits, Ids targets, int64_t classes, uint8_t* correct) {
  using A = Wide<T>;
  const int64_t row = blockIdx.x, target = targets[row];
  const T* x = logits + row * classes;
  const bool one_of_them = target >= 0 && target < classes;
  const A of_target = one_of_them ? As<A>(x[target]) : A(0);
  int better = !one_of_them || !(of_target > -std::numeric_limits<A>::infinity());
  const auto look = [&](int64_t i, A value) { better |= value > of_target || (value == of_target && i < target); };
  ForRow(
      x, classes, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
      [&](int64_t i, const auto& values) {
#pragma unroll
        for (int k = 0; k < kPerLoad<T>; ++k) look(i + k, values[k]);
      },
      look);
  better = BlockReduce(better, MaximumOf(), 0);
  if (threadIdx.x == 0) correct[row] = better == 0;
}

// The number of rows for which is_right(row) is true.
template <class A, class F>
__global__ void __launch_bounds__(1024) Count(F is_right, int64_t rows, A* out, bool accumulate) {
  int count = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) count += is_right(row);
  count = BlockSum(count);
  if (threadIdx.x == 0) *out = (accumulate ? *out : A(0)) + static_cast<A>(count);
}

struct IsSet {
  const uint8_t* correct;
  __device__ int operator()(int64_t row) const { return correct[row]; }
};
template <class A>
struct IsFirstOfLargest {
  const A* sums;
  int64_t rows;
  __device__ int operator()(int64_t row) const { return sums[rows + row] == A(0) && sums[2 * rows + row] == A(0); }
};

// ---- Classes split over ranks ----

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
__global__ void LossesOfSums(const A* largest, const A* sums, int64_t rows, A* losses, A* lse) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const A log = std::log(sums[row]);
  losses[row] = log - sums[rows + row];
  lse[row] = largest[row] + log;
}

dim3 GridOf(int64_t rows) { return dim3(static_cast<unsigned>(rows)); }

// The first `classes` columns of the logits are the classes from `first` on.
template <class Op>
void LossBackward(const Op& o, int64_t first, int64_t classes, const Context& c) {
  ForFloat(o.logits.dtype(), [&]<class T>() {
    // Packs of logits are at multiples of 16 bytes; so are those of dlogits if both tensors have the same alignment.
    const bool packs = (o.logits.address() - o.dlogits.address()) % 16 == 0;
    Launch(Gradients<T>, GridOf(o.logits.dim(0)), dim3(kBlock), 0, c.stream, At<T>(o.logits), IdsOf(o.targets),
           At<Wide<T>>(o.lse), Columns(o.logits), first, classes, static_cast<Wide<T>>(o.scale), At<T>(o.dlogits),
           packs);
  });
}

}  // namespace

void Compute(const ops::CrossEntropyForward& o, const Context& c) {
  ForFloat(o.logits.dtype(), [&]<class T>() {
    Launch(Losses<T>, GridOf(o.logits.dim(0)), dim3(kBlock), 0, c.stream, At<T>(o.logits), IdsOf(o.targets),
           Columns(o.logits), At<Wide<T>>(o.losses), At<Wide<T>>(o.lse));
  });
}

void Compute(const ops::CrossEntropyBackward& o, const Context& c) { LossBackward(o, 0, Columns(o.logits), c); }

void Compute(const ops::CountCorrect& o, const Context& c) {
  const int64_t rows = o.logits.dim(0);
  auto* correct = reinterpret_cast<uint8_t*>(c.workspace);
  ForFloat(o.logits.dtype(), [&]<class T>() {
    Launch(AreCorrect<T>, GridOf(rows), dim3(kBlock), 0, c.stream, At<T>(o.logits), IdsOf(o.targets), Columns(o.logits),
           correct);
    Launch(Count<Wide<T>, IsSet>, dim3(1), dim3(1024), 0, c.stream, IsSet{correct}, rows, At<Wide<T>>(o.out),
           o.accumulate);
  });
}

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
    Launch(LossesOfSums<A>, dim3(static_cast<unsigned>(CeilDiv(rows, kThreads))), dim3(kThreads), 0, c.stream,
           At<A>(o.largest), At<A>(o.sums), rows, At<A>(o.losses), At<A>(o.lse));
  });
}

void Compute(const ops::SplitBackward& o, const Context& c) { LossBackward(o, o.first, o.classes, c); }

void Compute(const ops::SplitCorrect& o, const Context& c) {
  const int64_t rows = o.sums.numel() / 3;
  ForFloat(o.sums.dtype(), [&]<class T>() {
    using A = Wide<T>;
    Launch(Count<A, IsFirstOfLargest<A>>, dim3(1), dim3(1024), 0, c.stream, IsFirstOfLargest<A>{At<A>(o.sums), rows},
           rows, At<A>(o.out), o.accumulate);
  });
}

}  // namespace twofold::cuda
