#include "kernels/cuda/collectives.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.h"

namespace twofold::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kAtOnce = 4;  // inputs that a thread loads at once

struct Arrays {
  const void* in[kMostArrays];
  void* out[kMostArrays];
  int ins, outs;
};

// The type in which elements of type T are combined. Integers are unsigned so that they wrap; comparisons use the order
// of T.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, int32_t>, uint32_t,
                                       std::conditional_t<std::is_same_v<T, uint8_t>, uint8_t, Wide<T>>>;

struct SumOf {
  template <class T, class A>
  static __device__ A Of(A a, A b) {
    return static_cast<A>(a + b);
  }
};
struct ProductOf {
  template <class T, class A>
  static __device__ A Of(A a, A b) {
    return static_cast<A>(a * b);
  }
};
template <class T, class A>
using Ordered = std::conditional_t<std::is_same_v<T, int32_t>, int32_t, A>;
struct LesserOf {
  template <class T, class A>
  static __device__ A Of(A a, A b) {
    return static_cast<Ordered<T, A>>(b) < static_cast<Ordered<T, A>>(a) ? b : a;
  }
};
struct GreaterOf {
  template <class T, class A>
  static __device__ A Of(A a, A b) {
    return static_cast<Ordered<T, A>>(a) < static_cast<Ordered<T, A>>(b) ? b : a;
  }
};

// Converts the accumulated value to its stored type; `by`: divide by it first, unless it is 0.
template <class T>
__device__ inline T Narrowed(Accumulator<T> sum, int by) {
  T x;
  if constexpr (std::is_integral_v<T>) {
    x = static_cast<T>(sum);
    if (by != 0) x = static_cast<T>(x / static_cast<T>(by));
  } else {
    Store(&x, by == 0 ? sum : sum / static_cast<Accumulator<T>>(by));
  }
  return x;
}

// Combines N elements from element `at` of every input and stores them to every output.
template <class T, class F, int N>
__device__ inline void ReduceAt(const Arrays& a, int64_t at, int by) {
  using P = Pack<T, N>;
  const auto load = [&](int r) { return *reinterpret_cast<const P*>(static_cast<const T*>(a.in[r]) + at); };
  const P first = load(0);
  Accumulator<T> sum[N];
  for (int i = 0; i < N; ++i) sum[i] = As<Accumulator<T>>(first.at[i]);
  int r = 1;
  for (; r + kAtOnce <= a.ins; r += kAtOnce) {
    P next[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) next[k] = load(r + k);
    for (int k = 0; k < kAtOnce; ++k) {
      for (int i = 0; i < N; ++i) sum[i] = F::template Of<T>(sum[i], As<Accumulator<T>>(next[k].at[i]));
    }
  }
  for (; r < a.ins; ++r) {
    const P next = load(r);
    for (int i = 0; i < N; ++i) sum[i] = F::template Of<T>(sum[i], As<Accumulator<T>>(next.at[i]));
  }
  P result;
  for (int i = 0; i < N; ++i) result.at[i] = Narrowed<T>(sum[i], by);
  for (int w = 0; w < a.outs; ++w) *reinterpret_cast<P*>(static_cast<T*>(a.out[w]) + at) = result;
}

// Arrays begin at the first element. The first threads process the elements that do not fill a pack.
template <class T, class F, int N>
__global__ void ReduceKernel(Arrays a, int64_t count, int by) {
  const int64_t self = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x, packs = count / N;
  for (int64_t p = self; p < packs; p += threads) ReduceAt<T, F, N>(a, p * N, by);
  if (const int64_t left = packs * N + self; left < count) ReduceAt<T, F, 1>(a, left, by);
}

using Line = Pack<uint32_t, 4>;

__global__ void CopyKernel(Arrays a, int64_t lines) {
  const int64_t self = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t p = self; p < lines; p += threads) {
    const Line line = static_cast<const Line*>(a.in[0])[p];
    for (int w = 0; w < a.outs; ++w) static_cast<Line*>(a.out[w])[p] = line;
  }
}

bool IsAligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % sizeof(Line) == 0; }
bool AllAligned(const Arrays& a) {
  return std::all_of(a.in, a.in + a.ins, IsAligned) && std::all_of(a.out, a.out + a.outs, IsAligned);
}

template <class T, class F>
void LaunchReduce(const Arrays& a, int64_t count, int by, int multiprocessors, cudaStream_t stream) {
  constexpr int kPack = kPerLoad<T>;
  if (AllAligned(a)) {
    const unsigned grid = GridFor(CeilDiv(count, kPack), kBlock, multiprocessors);
    return Launch(ReduceKernel<T, F, kPack>, grid, kBlock, 0, stream, a, count, by);
  }
  Launch(ReduceKernel<T, F, 1>, GridFor(count, kBlock, multiprocessors), kBlock, 0, stream, a, count, by);
}

}  // namespace

void ReduceSlices(std::span<const void* const> inputs, std::span<void* const> outputs, DType dtype, ReduceOp op,
                  int64_t first, int64_t count, int multiprocessors, cudaStream_t stream) {
  TWOFOLD_CHECK(!inputs.empty(), "a reduction has at least one input");
  TWOFOLD_CHECK_LE(static_cast<int>(std::max(inputs.size(), outputs.size())), kMostArrays);
  if (count == 0) return;
  Arrays a{.ins = static_cast<int>(inputs.size()), .outs = static_cast<int>(outputs.size())};
  const int64_t offset = first * ElementSize(dtype);
  std::transform(inputs.begin(), inputs.end(), a.in,
                 [&](const void* p) { return static_cast<const char*>(p) + offset; });
  std::transform(outputs.begin(), outputs.end(), a.out, [&](void* p) { return static_cast<char*>(p) + offset; });
  ForType(dtype, [&]<class T>() {
    switch (op) {
      case ReduceOp::kSum: return LaunchReduce<T, SumOf>(a, count, 0, multiprocessors, stream);
      case ReduceOp::kAvg: return LaunchReduce<T, SumOf>(a, count, a.ins, multiprocessors, stream);
      case ReduceOp::kProduct: return LaunchReduce<T, ProductOf>(a, count, 0, multiprocessors, stream);
      case ReduceOp::kMin: return LaunchReduce<T, LesserOf>(a, count, 0, multiprocessors, stream);
      case ReduceOp::kMax: return LaunchReduce<T, GreaterOf>(a, count, 0, multiprocessors, stream);
    }
  });
}

void DivideAll(void* data, DType dtype, int64_t count, int by, int multiprocessors, cudaStream_t stream) {
  if (count == 0) return;
  Arrays a{.ins = 1, .outs = 1};
  a.in[0] = a.out[0] = data;
  ForType(dtype, [&]<class T>() { LaunchReduce<T, SumOf>(a, count, by, multiprocessors, stream); });
}

void CopyToAll(std::span<char* const> to, const char* from, int64_t bytes, int multiprocessors, cudaStream_t stream) {
  TWOFOLD_CHECK_LE(static_cast<int>(to.size()), kMostArrays);
  if (bytes == 0) return;
  Arrays a{.ins = 1, .outs = 0};
  a.in[0] = from;
  for (char* t : to) {
    if (t != from) a.out[a.outs++] = t;
  }
  const int64_t lines = a.outs > 1 && AllAligned(a) ? bytes / static_cast<int64_t>(sizeof(Line)) : 0;
  Launch(CopyKernel, GridFor(lines, kBlock, multiprocessors), kBlock, 0, stream, a, lines);
  const int64_t done = lines * static_cast<int64_t>(sizeof(Line));
  for (int w = 0; w < a.outs && done < bytes; ++w) {
    Check(cudaMemcpyAsync(static_cast<char*>(a.out[w]) + done, from + done, static_cast<size_t>(bytes - done),
                          cudaMemcpyDefault, stream));
  }
}

}  // namespace twofold::cuda
