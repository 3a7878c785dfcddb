// Loops of a thread block over long rows of any length and alignment, with 16-byte loads for all elements except those
// at the ends. For .cu files only.
#pragma once

#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"

namespace twofold::cuda {

// Loops over the n elements of `row` that belong to `thread` of `threads`. Calls pack(i, values) for elements
// [i, i + kPerLoad<T>) that are loaded at once, and one(i, value) for single elements. The order is ascending, except
// for the elements at the ends.
template <class T, class PackF, class OneF>
__device__ inline void ForRow(const T* row, int64_t n, int thread, int threads, PackF pack, OneF one) {
  using A = Wide<T>;
  // doubles serve as a reference: speed does not matter
  constexpr int kPack = kPerLoad<T>, kInFlight = sizeof(T) == 8 ? 1 : 4;
  const int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T));
  const int64_t head = std::min<int64_t>(n, past == 0 ? 0 : kPack - past), packs = (n - head) / kPack,
                tail = head + packs * kPack;
  if (thread < head) one(int64_t{thread}, As<A>(row[thread]));
  const T* from = row + head;
  int64_t p = thread;
  for (; p + int64_t{kInFlight - 1} * threads < packs; p += int64_t{kInFlight} * threads) {
    A values[kInFlight][kPack];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) LoadPack(from + (p + int64_t{k} * threads) * kPack, values[k]);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) pack(head + (p + int64_t{k} * threads) * kPack, values[k]);
  }
  for (; p < packs; p += threads) {
    A values[kPack];
    LoadPack(from + p * kPack, values);
    pack(head + p * kPack, values);
  }
  if (thread < n - tail) one(tail + thread, As<A>(row[tail + thread]));
}

// exp(x) with an error of about 2^-22 |x| in the relevant range, in a fraction of the time; double: exact.
__device__ inline double FastExp(double x) { return std::exp(x); }
__device__ inline float FastExp(float x) { return __expf(x); }

// Class ids are I32 or U8; the pointer of the other type is null.
struct Ids {
  const int32_t* i32;
  const uint8_t* u8;
  __device__ int64_t operator[](int64_t row) const { return i32 != nullptr ? int64_t{i32[row]} : int64_t{u8[row]}; }
};
inline Ids IdsOf(const Tensor& t) {
  return t.dtype() == DType::kI32 ? Ids{At<int32_t>(t), nullptr} : Ids{nullptr, At<uint8_t>(t)};
}

}  // namespace twofold::cuda
