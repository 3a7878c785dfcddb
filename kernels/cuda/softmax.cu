// The softmax of rows and its gradient in one pass, with a row held in the registers of a warp or, if longer, of a
// block. Columns hidden by a causal mask are not read. Rows too long for registers are read twice, by a loop.
#include <initializer_list>

#include "kernels/cuda/packs.h"
#include "kernels/cuda/reduce.h"

namespace twofold::cuda {
namespace {

constexpr int kWarpsOfRows = 4;    // rows per block if each row has a warp
constexpr int kMostThreads = 512;  // per block
// Maximum number of elements of a row, or of each of two rows, that a thread holds.
template <class T, int kTensors>
constexpr int kElements = (sizeof(T) == 8 ? 16 : 32) / kTensors;

// A row of `columns`, the first `visible` of which count, in pieces of N that threads take in turn. If N > 1, all rows
// begin at whole pieces.
struct Row {
  int64_t begin, columns, visible;
  int threads, thread;
};

// Assigns rows to warps (kBlock false) or blocks. Returns false if there is no row.
template <bool kBlock>
__device__ inline bool RowOfThread(int64_t rows, int64_t columns, int64_t period, Row* row) {
  const int64_t index = kBlock ? int64_t{blockIdx.x} : int64_t{blockIdx.x} * kWarpsOfRows + threadIdx.x / kWarp;
  const int64_t visible = period > 0 ? index % period + 1 : columns;
  *row = {index * columns, columns, visible, kBlock ? static_cast<int>(blockDim.x) : kWarp,
          static_cast<int>(kBlock ? threadIdx.x : threadIdx.x % kWarp)};
  return index < rows;
}
template <bool kBlock, class A, class F>
__device__ inline A OfRow(A x, F f, A of_none) {
  return kBlock ? BlockReduce(x, f, of_none) : WarpReduce(x, f);
}

// Calls f(first column, elements [N], how many of them count) for each of a thread's pieces that has any.
template <int N, int kPieces, class A, class F>
__device__ inline void ForPieces(const Row& row, A (&x)[kPieces][N], F f) {
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    const int64_t column = (int64_t{piece} * row.threads + row.thread) * N;
    if (column < row.columns) f(column, x[piece], row.visible - column);
  }
}

template <class T, int N, bool kBlock>
__global__ void __launch_bounds__(kMostThreads)
    Softmax(const T* x, T* y, int64_t rows, int64_t columns, int64_t period) {
  using A = Wide<T>;
  constexpr A kNothing = -static_cast<A>(INFINITY);
  Row row;
  const bool there = RowOfThread<kBlock>(rows, columns, period, &row);
  if (!kBlock && !there) return;  // the whole warp returns
  A of_row[kElements<T, 1> / N][N], largest = kNothing, sum = 0;
  ForPieces(row, of_row, [&](int64_t column, A(&piece)[N], int64_t count) {
    if (count >= N) {
      LoadPack(x + row.begin + column, piece);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) piece[i] = i < count ? As<A>(x[row.begin + column + i]) : kNothing;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) largest = max(largest, piece[i]);
  });
  largest = OfRow<kBlock>(largest, MaximumOf(), kNothing);
  ForPieces(row, of_row, [&](int64_t, A(&piece)[N], int64_t) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum += piece[i] = exp(piece[i] - largest);
  });
  const A factor = 1 / OfRow<kBlock>(sum, PlusOf(), A(0));
  ForPieces(row, of_row, [&](int64_t column, A(&piece)[N], int64_t) {
#pragma unroll
    for (int i = 0; i < N; ++i) piece[i] *= factor;
    StorePack(y + row.begin + column, piece);
  });
}

// dx = y * (dy - sum of y * dy)
template <class T, int N, bool kBlock>
__global__ void __launch_bounds__(kMostThreads)
    SoftmaxBackward(const T* y, const T* dy, T* dx, int64_t rows, int64_t columns) {
  using A = Wide<T>;
  Row row;
  const bool there = RowOfThread<kBlock>(rows, columns, 0, &row);
  if (!kBlock && !there) return;
  constexpr int kPieces = kElements<T, 2> / N;
  A of_y[kPieces][N], of_dy[kPieces][N], sum = 0;
  ForPieces(row, of_y, [&](int64_t column, A(&piece)[N], int64_t) { LoadPack(y + row.begin + column, piece); });
  ForPieces(row, of_dy, [&](int64_t column, A(&piece)[N], int64_t) { LoadPack(dy + row.begin + column, piece); });
#pragma unroll
  for (int k = 0; k < kPieces; ++k) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if ((int64_t{k} * row.threads + row.thread) * N < columns) sum += of_y[k][i] * of_dy[k][i];
    }
  }
  sum = OfRow<kBlock>(sum, PlusOf(), A(0));
#pragma unroll
  for (int k = 0; k < kPieces; ++k) {
#pragma unroll
    for (int i = 0; i < N; ++i) of_y[k][i] *= of_dy[k][i] - sum;
  }
  ForPieces(row, of_y, [&](int64_t column, A(&piece)[N], int64_t) { StorePack(dx + row.begin + column, piece); });
}

// Rows of any length. A thread writes only elements that it alone has read, so y may be x.
template <class T>
__global__ void LongSoftmax(const T* x, T* y, int64_t columns, int64_t period) {
  using A = Wide<T>;
  Row row;
  RowOfThread<true>(0, columns, period, &row);
  A largest = -static_cast<A>(INFINITY), sum = 0;
  for (int64_t i = row.thread; i < row.visible; i += row.threads) {  // (Milakov and Gimelshein 2018)
    const A of_x = As<A>(x[row.begin + i]), top = max(largest, of_x);
    sum = sum * exp(largest - top) + exp(of_x - top);
    largest = top;
  }
  const A top = BlockReduce(largest, MaximumOf(), -static_cast<A>(INFINITY));
  const A factor = 1 / BlockSum(sum > 0 ? sum * exp(largest - top) : A(0));
  for (int64_t i = row.thread; i < columns; i += row.threads) {
    Store(y + row.begin + i, i < row.visible ? exp(As<A>(x[row.begin + i]) - top) * factor : A(0));
  }
}
template <class T>
__global__ void LongSoftmaxBackward(const T* y, const T* dy, T* dx, int64_t columns) {
  using A = Wide<T>;
  Row row;
  RowOfThread<true>(0, columns, 0, &row);
  A sum = 0;
  for (int64_t i = row.thread; i < columns; i += row.threads) sum += As<A>(y[row.begin + i]) * As<A>(dy[row.begin + i]);
  sum = BlockSum(sum);
  for (int64_t i = row.thread; i < columns; i += row.threads) {
    Store(dx + row.begin + i, As<A>(y[row.begin + i]) * (As<A>(dy[row.begin + i]) - sum));
  }
}

// Calls of_rows.operator()<N, kBlock>(grid, block) for rows that fit registers, long_rows(grid, block) for others.
template <class T, int kTensors, class F, class G>
void ForRows(int64_t rows, int64_t columns, std::initializer_list<const Tensor*> tensors, F of_rows, G long_rows) {
  const auto blocks = [](int64_t n) {
    TWOFOLD_CHECK(n <= 0x7fffffff, "the size fits the limits of a grid");
    return dim3(static_cast<unsigned>(n));
  };
  const auto choose = [&]<int N>() {
    // for blocks, use more threads with fewer elements each
    constexpr int kMost = kElements<T, kTensors>, kOfThread = kMost / 2;
    if (columns <= kMost * kWarp) {
      of_rows.template operator()<N, false>(blocks(CeilDiv(rows, kWarpsOfRows)), dim3(kWarpsOfRows * kWarp));
    } else if (columns <= int64_t{kMost} * kMostThreads) {
      const int64_t threads = std::min<int64_t>(kMostThreads, CeilDiv(CeilDiv(columns, kOfThread), kWarp) * kWarp);
      of_rows.template operator()<N, true>(blocks(rows), dim3(static_cast<unsigned>(threads)));
    } else {
      long_rows(blocks(rows), dim3(kMostThreads));
    }
  };
  if (PacksFit(kPerLoad<T>, columns, tensors)) return choose.template operator()<kPerLoad<T>>();
  choose.template operator()<1>();
}

}  // namespace

void Compute(const ops::SoftmaxForward& o, const Context& c) {
  const int64_t rows = Rows(o.x), columns = Columns(o.x), period = o.causal ? o.x.dim(-2) : 0;
  ForFloat(o.x.dtype(), [&]<class T>() {
    ForRows<T, 1>(
        rows, columns, {&o.x, &o.y},
        [&]<int N, bool kBlock>(dim3 grid, dim3 block) {
          Launch(Softmax<T, N, kBlock>, grid, block, 0, c.stream, At<T>(o.x), At<T>(o.y), rows, columns, period);
        },
        [&](dim3 grid, dim3 block) {
          Launch(LongSoftmax<T>, grid, block, 0, c.stream, At<T>(o.x), At<T>(o.y), columns, period);
        });
  });
}

void Compute(const ops::SoftmaxBackward& o, const Context& c) {
  const int64_t rows = Rows(o.y), columns = Columns(o.y);
  ForFloat(o.y.dtype(), [&]<class T>() {
    ForRows<T, 2>(
        rows, columns, {&o.y, &o.dy, &o.dx},
        [&]<int N, bool kBlock>(dim3 grid, dim3 block) {
          Launch(SoftmaxBackward<T, N, kBlock>, grid, block, 0, c.stream, At<T>(o.y), At<T>(o.dy), At<T>(o.dx), rows,
                 columns);
        },
        [&](dim3 grid, dim3 block) {
          Launch(LongSoftmaxBackward<T>, grid, block, 0, c.stream, At<T>(o.y), At<T>(o.dy), At<T>(o.dx), columns);
        });
  });
}

}  // namespace twofold::cuda
