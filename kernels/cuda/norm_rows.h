// Matrix rows for norms: read once, held in registers while sums over them are computed, written once. For .cu files
// only.
//
// A warp handles a row of up to 1024 columns (512 for F64), a block one of up to 8192 (4096). Each thread holds kPacks
// packs of the row in their stored type. Longer rows are also handled by a block and are read again for every sum.
#pragma once

#include "kernels/cuda/functions.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"
#include "kernels/cuda/reduce.h"

namespace twofold::cuda {

enum class RowKind { kOfWarp, kOfBlock, kLong };

inline constexpr int kRowsABlock = 4, kThreadsOfRow = 256, kThreadsOfLongRow = 512;

// The part of a row that a thread holds. kPacked: rows consist of whole packs at addresses that allow pack loads.
template <class T, RowKind kKind, bool kPacked>
class RowPart {
 public:
  using A = Wide<T>;
  static constexpr int kPack = kPerLoad<T>, kPacks = (sizeof(T) == 8 ? 16 : 32) / kPack;

  __device__ explicit RowPart(int columns) : columns_(columns) {
    if constexpr (kKind == RowKind::kOfWarp) {
      thread_ = static_cast<int>(threadIdx.x) % kWarp, threads_ = kWarp;
    } else {
      thread_ = static_cast<int>(threadIdx.x), threads_ = static_cast<int>(blockDim.x);
    }
  }

  struct Held {
    Pack<T, kPack> packs[kPacks];
  };
  __device__ void Load(const T* row, Held& held) const {
    ForPacks([&](int k, int column, int count) {
      if constexpr (kPacked) {
        held.packs[k] = *reinterpret_cast<const Pack<T, kPack>*>(row + column);
      } else {
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          if (i < count) held.packs[k].at[i] = row[column + i];
        }
      }
    });
  }
  // held += row, rounded to T; the result is also stored in `to`.
  __device__ void Add(const T* row, T* to, Held& held) const {
    ForPacks([&](int k, int column, int count) {
      A more[kPack], sum[kPack];
      Some(row, column, count, more);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        if (!kPacked && i >= count) continue;
        sum[i] = As<A>(held.packs[k].at[i]) + more[i];
        Store(&held.packs[k].at[i], sum[i]);
      }
      StoreSome(to + column, kPacked, count, sum);
    });
  }
  // Elements [column, column + count) of a row converted to A: gamma, beta.
  __device__ void Some(const T* row, int column, int count, A (&to)[kPack]) const {
    LoadSome(row + column, kPacked, count, to);
  }

  // Calls f(k, column, count) for each of the thread's packs that has columns.
  template <class F>
  __device__ void ForPacks(F f) const {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int column = (k * threads_ + thread_) * kPack;
      if (column < columns_) f(k, column, kPacked || columns_ - column >= kPack ? kPack : columns_ - column);
    }
  }
  // Calls f(k, i, column) for each of the thread's elements.
  template <class F>
  __device__ void ForEach(F f) const {
    ForPacks([&](int k, int column, int count) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        if (kPacked || i < count) f(k, i, column + i);
      }
    });
  }
  // The sum over the row's threads; all of them must call it.
  __device__ A Sum(A x) const {
    if constexpr (kKind == RowKind::kOfWarp)
      return WarpSum(x);
    else
      return BlockSum(x);
  }

 private:
  int thread_, threads_, columns_;
};

// The row of the calling thread.
template <RowKind kKind>
__device__ inline int64_t RowOfThread() {
  if constexpr (kKind == RowKind::kOfWarp)
    return int64_t{blockIdx.x} * kRowsABlock + threadIdx.x / kWarp;
  else
    return blockIdx.x;
}

// Adds the elements of `past`, if any, to the results of a norm, without fusing into a multiply-add.
template <class T, int kPack>
__device__ inline void AddPast(const T* past, bool packed, int64_t count, Wide<T> (&to)[kPack]) {
  if (past == nullptr) return;
  Wide<T> more[kPack];
  LoadSome(past, packed, count, more);
#pragma unroll
  for (int i = 0; i < kPack; ++i) to[i] = Plus(to[i], more[i]);
}

// Calls f.operator()<kKind, kPacked>(grid, block) with the launch configuration for rows of this many columns.
template <class T, class F>
void ForRows(int64_t rows, int64_t columns, bool packs, F f) {
  using A = RowPart<T, RowKind::kOfWarp, true>;
  constexpr int64_t kThread = A::kPack * A::kPacks;
  TWOFOLD_CHECK_LT(columns, int64_t{1} << 30);
  const auto grid = static_cast<unsigned>(rows);
  if (columns > kThread * kThreadsOfRow) return f.template operator()<RowKind::kLong, false>(grid, kThreadsOfLongRow);
  if (packs && columns <= kThread * kWarp) {
    return f.template operator()<RowKind::kOfWarp, true>(static_cast<unsigned>(CeilDiv(rows, kRowsABlock)),
                                                         kRowsABlock * kWarp);
  }
  const auto block = static_cast<unsigned>(CeilDiv(CeilDiv(columns, kThread), kWarp) * kWarp);
  if (packs) return f.template operator()<RowKind::kOfBlock, true>(grid, block);
  f.template operator()<RowKind::kOfBlock, false>(grid, block);
}

}  // namespace twofold::cuda
