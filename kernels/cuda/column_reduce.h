// Column sums of a matrix, several per column: the gradients of biases and of norm weights. For .cu files only.
//
// Two passes: each thread block sums a tile of columns over a block of rows, with 16 bytes of each row per thread and
// eight rows in parallel; then the sums of the row blocks are added. The division of rows into blocks depends on the
// shape alone (core/device/ops/column_sums.h), and so does the order of every sum, for aligned and unaligned tensors
// alike.
#pragma once

#include <array>

#include "core/device/ops/column_sums.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"

namespace twofold::cuda {

// Thread (x, y) of a block has its own columns and every eighth row. For each row it calls
//   terms(row, column, whole, count, sums): adds the terms of `row` for column + i to sums[k][i], for the first `count`
//                                           values of i; `whole`: for all of them, and 16-byte loads (LoadPack) are
//                                           allowed.
template <int kSums, class T, class Terms>
__global__ void __launch_bounds__(256)
    SumBlocksOfRows(Terms terms, bool packs, int64_t rows, int64_t columns, int64_t row_blocks,
                    Wide<T>* partial /*[kSums, row_blocks, columns]*/) {
  using A = Wide<T>;
  constexpr int kPack = kPerLoad<T>, kTile = kWarp * kPack, kSide = 8;
  __shared__ A shared[kSide][kTile];
  const int lane = static_cast<int>(threadIdx.x), side = static_cast<int>(threadIdx.y);
  const int64_t column = int64_t{blockIdx.x} * kTile + lane * kPack, count = columns - column;
  const int64_t block = blockIdx.y, begin = block * rows / row_blocks, end = (block + 1) * rows / row_blocks;
  const bool whole = packs && count >= kPack;
  A sums[kSums][kPack] = {};
  if (whole) {
#pragma unroll 4
    for (int64_t row = begin + side; row < end; row += kSide) terms(row, column, true, int64_t{kPack}, sums);
  } else if (count > 0) {
    for (int64_t row = begin + side; row < end; row += kSide) terms(row, column, false, count, sums);
  }
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    __syncthreads();  // the previous values have been read
#pragma unroll
    for (int i = 0; i < kPack; ++i) shared[side][i * kWarp + lane] = sums[k][i];
    __syncthreads();
    // Each thread takes every 256th column of the tile.
    for (int at = side * kWarp + lane; at < kTile; at += kWarp * kSide) {
      A sum = 0;
#pragma unroll
      for (int s = 0; s < kSide; ++s) sum += shared[s][at % kPack * kWarp + at / kPack];
      const int64_t c = int64_t{blockIdx.x} * kTile + at;
      if (c < columns) partial[(k * row_blocks + block) * columns + c] = sum;
    }
  }
}

// to[c] (+)= the sum of partial[., c]; blockIdx.y selects the sum.
template <int kSums, class A, class To>
struct ColumnOutputs {
  To* at[kSums];
};
template <int kSums, class A, class To>
__global__ void __launch_bounds__(1024) AddBlocksOfRows(const A* partial, ColumnOutputs<kSums, A, To> to,
                                                        int64_t columns, int64_t row_blocks, bool accumulate) {
  __shared__ A shared[kWarp][kWarp];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t column = int64_t{blockIdx.x} * kWarp + x;
  const A* of_sum = partial + blockIdx.y * row_blocks * columns;
  A sum = 0;
  if (column < columns) {
#pragma unroll 4
    for (int64_t block = y; block < row_blocks; block += kWarp) sum += of_sum[block * columns + column];
  }
  shared[y][x] = sum;
  __syncthreads();
  if (y != 0 || column >= columns) return;
  sum = 0;
  for (int s = 0; s < kWarp; ++s) sum += shared[s][x];
  To* out = to.at[0];
#pragma unroll
  for (int k = 1; k < kSums; ++k) out = static_cast<int>(blockIdx.y) == k ? to.at[k] : out;
  out += column;
  Store(out, accumulate ? As<A>(*out) + sum : sum);
}

// outs[k] (+)= the sums of the terms of kind k over `rows` rows, for each of `columns` columns; all outs have the same
// float type. T is the stored type of x, the matrix; `packs` is PacksFit(kPerLoad<T>, columns, all tensors that terms
// read). The context's workspace has ColumnSumsWorkspace(kSums, x) bytes.
template <int kSums, class T, class Terms>
void ReduceColumns(const Terms& terms, bool packs, int64_t rows, int64_t columns, const std::array<Tensor, kSums>& outs,
                   bool accumulate, const Context& c) {
  using A = Wide<T>;
  const int64_t row_blocks = ops::RowBlocks(rows, columns,
                                            sizeof(T) == 2   ? DType::kBF16
                                            : sizeof(T) == 4 ? DType::kF32
                                                             : DType::kF64);
  TWOFOLD_CHECK_LE(static_cast<size_t>(kSums * row_blocks * columns) * sizeof(A), c.workspace_bytes);
  A* partial = reinterpret_cast<A*>(c.workspace);
  const int64_t tile = kWarp * kPerLoad<T>;
  Launch(SumBlocksOfRows<kSums, T, Terms>,
         dim3(static_cast<unsigned>(CeilDiv(columns, tile)), static_cast<unsigned>(row_blocks)), dim3(kWarp, 8), 0,
         c.stream, terms, packs, rows, columns, row_blocks, partial);
  ForFloat(outs[0].dtype(), [&]<class To>() {
    ColumnOutputs<kSums, A, To> to;
    for (int k = 0; k < kSums; ++k) to.at[k] = At<To>(outs[static_cast<size_t>(k)]);
    Launch(AddBlocksOfRows<kSums, A, To>, dim3(static_cast<unsigned>(CeilDiv(columns, kWarp)), kSums),
           dim3(kWarp, kWarp), 0, c.stream, partial, to, columns, row_blocks, accumulate);
  });
}

}  // namespace twofold::cuda
