// Cross-entropy of logits: one thread block per row, which is read once.
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
__global__ void __launch_bounds__(kBlock) Gradients(const T* logits, Ids targets, const Wide<T>* lse, int64_t classes,
                                                    Wide<T> scale, T* dlogits, bool packs) {
  using A = Wide<T>;
  const int64_t row = blockIdx.x, target = targets[row];
  const bool here = threadIdx.x == 0 && target >= 0 && target < classes;
  const T* x = logits + row * classes;
  T* dx = dlogits + row * classes;
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

template <class A>
__global__ void __launch_bounds__(1024) Count(const uint8_t* correct, int64_t rows, A* out, bool accumulate) {
  int count = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) count += correct[row];
  count = BlockSum(count);
  if (threadIdx.x == 0) *out = (accumulate ? *out : A(0)) + static_cast<A>(count);
}

dim3 GridOf(int64_t rows) { return dim3(static_cast<unsigned>(rows)); }

}  // namespace

void Compute(const ops::CrossEntropyForward& o, const Context& c) {
  ForFloat(o.logits.dtype(), [&]<class T>() {
    Launch(Losses<T>, GridOf(o.logits.dim(0)), dim3(kBlock), 0, c.stream, At<T>(o.logits), IdsOf(o.targets),
           Columns(o.logits), At<Wide<T>>(o.losses), At<Wide<T>>(o.lse));
  });
}

void Compute(const ops::CrossEntropyBackward& o, const Context& c) {
  ForFloat(o.logits.dtype(), [&]<class T>() {
    // Packs of logits are at multiples of 16 bytes; so are those of dlogits if both tensors have the same alignment.
    const bool packs = (o.logits.address() - o.dlogits.address()) % 16 == 0;
    Launch(Gradients<T>, GridOf(o.logits.dim(0)), dim3(kBlock), 0, c.stream, At<T>(o.logits), IdsOf(o.targets),
           At<Wide<T>>(o.lse), Columns(o.logits), static_cast<Wide<T>>(o.scale), At<T>(o.dlogits), packs);
  });
}

void Compute(const ops::CountCorrect& o, const Context& c) {
  const int64_t rows = o.logits.dim(0);
  auto* correct = reinterpret_cast<uint8_t*>(c.workspace);
  ForFloat(o.logits.dtype(), [&]<class T>() {
    Launch(AreCorrect<T>, GridOf(rows), dim3(kBlock), 0, c.stream, At<T>(o.logits), IdsOf(o.targets), Columns(o.logits),
           correct);
    Launch(Count<Wide<T>>, dim3(1), dim3(1024), 0, c.stream, correct, rows, At<Wide<T>>(o.out), o.accumulate);
  });
}

}  // namespace twofold::cuda
