// Batch normalisation (Ioffe and Szegedy 2015) with channels last: one pass over memory for each operation. The
// division of rows among blocks and threads depends on the shape alone (ops::rules::CudaSweep), and so does the order
// of every sum.
#include "kernels/cuda/column_reduce.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"

namespace twofold::cuda {
namespace {

using ops::rules::CudaSweep;

constexpr int kThreads = 256;
constexpr int kAtOnce = 4;  // rows that a thread loads before it computes, to have enough bytes in flight

// A thread's place in a block.
struct Place {
  __device__ explicit Place(const CudaSweep& s)
      : row(static_cast<int>(threadIdx.x / s.tile)),
        piece(static_cast<int>(threadIdx.x % s.tile)),
        channel((blockIdx.x * s.tile + piece) * s.piece),
        count(row < s.at_once ? s.channels - channel : 0) {}
  int row, piece;          // within the block
  int64_t channel, count;  // the first channel of the piece, and the number of channels from it on; 0: nothing to do
};

// Loads the values of the piece's channels.
template <class T, int N, class A>
__device__ inline void LoadFigures(const T* from, const Place& at, A (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = i < at.count ? As<A>(from[at.channel + i]) : A(0);
}

// The number of rows first, first + step, ... below end.
__device__ inline int64_t RowsFrom(int64_t first, int64_t end, int64_t step) {
  return first < end ? (end - first + step - 1) / step : 0;
}

// ---- Mean and squares ----
// Merges the mean and sum of squared deviations of `n` values with those of `more` others (Chan, Golub and LeVeque
// 1979).
template <class A>
__device__ inline void Merge(int64_t n, A& mean, A& squares, int64_t more, A other_mean, A other_squares) {
  const A share = static_cast<A>(more) / static_cast<A>(n + more), delta = other_mean - mean;
  mean += delta * share;
  squares += other_squares + delta * delta * (share * static_cast<A>(n));
}

// The values of a slab for each channel: first[slab][channel] and second[slab][channel].
template <class T>
__global__ void __launch_bounds__(kThreads)
    SlabMoments(const T* x, CudaSweep s, bool packs, Wide<T>* first, Wide<T>* second) {
  using A = Wide<T>;
  constexpr int kPiece = kPerLoad<T>;
  __shared__ A means[kThreads * kPiece], squares[kThreads * kPiece];
  __shared__ int64_t counts[kThreads];  // rows that went into each row of threads
  const Place at(s);
  const bool whole = packs && at.count >= kPiece;
  const int64_t slab = blockIdx.y, begin = slab * s.rows / s.slabs, end = (slab + 1) * s.rows / s.slabs;
  A mean[kPiece] = {}, square[kPiece] = {};
  int64_t n = 0;
  if (at.count > 0) {
    for (int64_t row = begin + at.row; row < end; row += kAtOnce * s.at_once) {
      const int64_t left = RowsFrom(row, end, s.at_once), here = left < kAtOnce ? left : kAtOnce;
      A v[kAtOnce][kPiece];
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        if (r < here) LoadSome(x + (row + r * s.at_once) * s.channels + at.channel, whole, at.count, v[r]);
      }
      const A part = A(1) / static_cast<A>(here), share = static_cast<A>(here) / static_cast<A>(n + here);
      const A weight = share * static_cast<A>(n);
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        A sum = 0, away = 0;
#pragma unroll
        for (int r = 0; r < kAtOnce; ++r) sum += r < here ? v[r][i] : A(0);
        const A middle = sum * part;
#pragma unroll
        for (int r = 0; r < kAtOnce; ++r) away += r < here ? (v[r][i] - middle) * (v[r][i] - middle) : A(0);
        const A delta = middle - mean[i];
        mean[i] += delta * share;
        square[i] += away + delta * delta * weight;
      }
      n += here;
    }
  }
  const int own = static_cast<int>(threadIdx.x) * kPiece;
#pragma unroll
  for (int i = 0; i < kPiece; ++i) means[own + i] = mean[i], squares[own + i] = square[i];
  if (at.piece == 0) counts[at.row] = RowsFrom(begin + at.row, end, s.at_once);
  int half = 1;
  while (half < s.at_once) half *= 2;
  for (half /= 2; half > 0; half /= 2) {
    __syncthreads();
    const int64_t mine = at.row < half ? counts[at.row] : 0,
                  other = at.row + half < s.at_once ? counts[at.row + half] : 0;
    if (at.row < half && other > 0) {
      const int from = own + half * static_cast<int>(s.tile) * kPiece;
#pragma unroll
      for (int i = 0; i < kPiece; ++i)
        Merge(mine, means[own + i], squares[own + i], other, means[from + i], squares[from + i]);
    }
    __syncthreads();
    if (at.row < half && at.piece == 0) counts[at.row] = mine + other;
  }
  if (at.row > 0 || at.count <= 0) return;
#pragma unroll
  for (int i = 0; i < kPiece; ++i) {
    if (i >= at.count) continue;
    first[slab * s.channels + at.channel + i] = means[own + i];
    second[slab * s.channels + at.channel + i] = squares[own + i];
  }
}

// Merges slabs in their order: 32 channels per block, every 32nd slab per thread.
template <class A>
__global__ void __launch_bounds__(1024) MergeSlabs(const A* first, const A* second, CudaSweep s, A* mean, A* squares) {
  __shared__ A means[kWarp][kWarp], all_squares[kWarp][kWarp];
  __shared__ int64_t counts[kWarp];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t channel = int64_t{blockIdx.x} * kWarp + x;
  A m = 0, q = 0;
  int64_t n = 0;
  for (int64_t slab = y; slab < s.slabs; slab += kWarp) {
    const int64_t rows = (slab + 1) * s.rows / s.slabs - slab * s.rows / s.slabs;
    if (channel < s.channels)
      Merge(n, m, q, rows, first[slab * s.channels + channel], second[slab * s.channels + channel]);
    n += rows;
  }
  means[y][x] = m, all_squares[y][x] = q;
  if (x == 0) counts[y] = n;
  __syncthreads();
  if (y != 0 || channel >= s.channels) return;
  for (int other = 1; other < kWarp && counts[other] > 0; ++other) {
    Merge(n, m, q, counts[other], means[other][x], all_squares[other][x]);
    n += counts[other];
  }
  mean[channel] = m, squares[channel] = q;
}

// ---- Sums of gradients ----
template <class T>
__global__ void __launch_bounds__(kThreads)
    SlabSums(const T* dy, const T* x, const T* y, const Wide<T>* mean, const Wide<T>* rstd, CudaSweep s, bool packs,
             Wide<T>* first, Wide<T>* second) {
  using A = Wide<T>;
  constexpr int kPiece = kPerLoad<T>, kRows = 2;  // three tensors: equally many bytes in flight
  __shared__ A sums[2][kThreads * kPiece];
  const Place at(s);
  const bool whole = packs && at.count >= kPiece;
  const int64_t slab = blockIdx.y, begin = slab * s.rows / s.slabs, end = (slab + 1) * s.rows / s.slabs;
  A g_sum[kPiece] = {}, gx_sum[kPiece] = {};
  if (at.count > 0) {
    A m[kPiece], k[kPiece];
    LoadFigures(mean, at, m);
    LoadFigures(rstd, at, k);
    for (int64_t row = begin + at.row; row < end; row += kRows * s.at_once) {
      A d[kRows][kPiece], v[kRows][kPiece], z[kRows][kPiece];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int64_t from = (row + r * s.at_once) * s.channels + at.channel;
        if (row + r * s.at_once >= end) continue;
        LoadSome(dy + from, whole, at.count, d[r]);
        LoadSome(x + from, whole, at.count, v[r]);
        if (y != nullptr) LoadSome(y + from, whole, at.count, z[r]);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row + r * s.at_once >= end) continue;
#pragma unroll
        for (int i = 0; i < kPiece; ++i) {
          const A g = y == nullptr || z[r][i] > 0 ? d[r][i] : A(0);
          g_sum[i] += g;
          gx_sum[i] += g * ((v[r][i] - m[i]) * k[i]);
        }
      }
    }
  }
  const int own = static_cast<int>(threadIdx.x) * kPiece;
#pragma unroll
  for (int i = 0; i < kPiece; ++i) sums[0][own + i] = g_sum[i], sums[1][own + i] = gx_sum[i];
  int half = 1;
  while (half < s.at_once) half *= 2;
  for (half /= 2; half > 0; half /= 2) {
    __syncthreads();
    if (at.row >= half || at.row + half >= s.at_once) continue;
    const int from = own + half * static_cast<int>(s.tile) * kPiece;
#pragma unroll
    for (int i = 0; i < kPiece; ++i) sums[0][own + i] += sums[0][from + i], sums[1][own + i] += sums[1][from + i];
  }
  if (at.row > 0 || at.count <= 0) return;
#pragma unroll
  for (int i = 0; i < kPiece; ++i) {
    if (i >= at.count) continue;
    first[slab * s.channels + at.channel + i] = sums[0][own + i];
    second[slab * s.channels + at.channel + i] = sums[1][own + i];
  }
}

// ---- From statistics to normalisation parameters ----
template <class A, class R>
__global__ void FinishChannels(const A* parts, int64_t count, double rows, R* running_mean, R* running_variance,
                               A* mean_out, A* rstd_out, int64_t channels, double momentum, double eps) {
  const int64_t ch = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (ch >= channels) return;
  auto mean = static_cast<double>(running_mean[ch]), variance = static_cast<double>(running_variance[ch]);
  if (count > 0) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(parts[2 * i * channels + ch]);
    mean = sum / static_cast<double>(count);
    for (int64_t i = 0; i < count; ++i) {
      const double away = static_cast<double>(parts[2 * i * channels + ch]) - mean;
      squares += static_cast<double>(parts[(2 * i + 1) * channels + ch]) + rows * away * away;
    }
    const double all = rows * static_cast<double>(count), unbiased = squares / (all > 2 ? all - 1 : 1);
    variance = squares / all;
    running_mean[ch] = static_cast<R>((1 - momentum) * static_cast<double>(running_mean[ch]) + momentum * mean);
    running_variance[ch] =
        static_cast<R>((1 - momentum) * static_cast<double>(running_variance[ch]) + momentum * unbiased);
  }
  mean_out[ch] = static_cast<A>(mean);
  rstd_out[ch] = static_cast<A>(1 / sqrt(variance + eps));
}

// ---- Elementwise ----
template <class T, bool kRelu>
__global__ void __launch_bounds__(kThreads) Normalise(const T* x, const T* gamma, const T* beta, const Wide<T>* mean,
                                                      const Wide<T>* rstd, T* y, CudaSweep s, bool packs) {
  using A = Wide<T>;
  constexpr int kPiece = kPerLoad<T>;
  const Place at(s);
  if (at.count <= 0) return;
  const bool whole = packs && at.count >= kPiece;
  A m[kPiece], scale[kPiece], shift[kPiece], factor[kPiece];
  LoadFigures(mean, at, m);
  LoadFigures(gamma, at, scale);
  LoadFigures(rstd, at, factor);
  LoadFigures(beta, at, shift);
#pragma unroll
  for (int i = 0; i < kPiece; ++i) scale[i] *= factor[i];
  const int64_t step = gridDim.y * s.at_once;
  for (int64_t row = blockIdx.y * s.at_once + at.row; row < s.rows; row += kAtOnce * step) {
    A v[kAtOnce][kPiece];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (row + r * step < s.rows) LoadSome(x + (row + r * step) * s.channels + at.channel, whole, at.count, v[r]);
    }
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (row + r * step >= s.rows) continue;
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        const A t = (v[r][i] - m[i]) * scale[i] + shift[i];
        v[r][i] = !kRelu || t > 0 ? t : A(0);
      }
      StoreSome(y + (row + r * step) * s.channels + at.channel, whole, at.count, v[r]);
    }
  }
}

// dx = scale * (g - g_mean - (x - mean) * slope): scale = gamma * rstd and slope = rstd^2 * mean of g * (x - mean).
template <class T>
__global__ void __launch_bounds__(kThreads)
    NormaliseBackward(const T* dy, const T* x, const T* y, const T* gamma, const Wide<T>* mean, const Wide<T>* rstd,
                      const Wide<T>* sums, T* dx, double rows, CudaSweep s, bool packs) {
  using A = Wide<T>;
  constexpr int kPiece = kPerLoad<T>, kRows = 2;
  const Place at(s);
  if (at.count <= 0) return;
  const bool whole = packs && at.count >= kPiece;
  const A part = A(1) / static_cast<A>(rows);
  A m[kPiece], k[kPiece], scale[kPiece], g_mean[kPiece], slope[kPiece];
  LoadFigures(mean, at, m);
  LoadFigures(rstd, at, k);
  LoadFigures(gamma, at, scale);
  LoadFigures(sums, at, g_mean);
  LoadFigures(sums + s.channels, at, slope);
#pragma unroll
  for (int i = 0; i < kPiece; ++i) {
    scale[i] *= k[i];
    slope[i] *= part * k[i];
    g_mean[i] *= part;
  }
  const int64_t step = gridDim.y * s.at_once;
  for (int64_t row = blockIdx.y * s.at_once + at.row; row < s.rows; row += kRows * step) {
    A d[kRows][kPiece], v[kRows][kPiece], z[kRows][kPiece];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t from = (row + r * step) * s.channels + at.channel;
      if (row + r * step >= s.rows) continue;
      LoadSome(dy + from, whole, at.count, d[r]);
      LoadSome(x + from, whole, at.count, v[r]);
      if (y != nullptr) LoadSome(y + from, whole, at.count, z[r]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (row + r * step >= s.rows) continue;
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        const A g = y == nullptr || z[r][i] > 0 ? d[r][i] : A(0);
        d[r][i] = scale[i] * (g - g_mean[i] - (v[r][i] - m[i]) * slope[i]);
      }
      StoreSome(dx + (row + r * step) * s.channels + at.channel, whole, at.count, d[r]);
    }
  }
}

dim3 BlocksOfSlabs(const CudaSweep& s) { return dim3(static_cast<unsigned>(s.tiles), static_cast<unsigned>(s.slabs)); }
dim3 BlocksOfChannels(const CudaSweep& s, unsigned figures) {
  return dim3(static_cast<unsigned>(CeilDiv(s.channels, kWarp)), figures);
}
// Enough blocks to fill the GPU, if a thread handles `rows` rows at once.
dim3 BlocksOfRows(const CudaSweep& s, int64_t rows, const Context& c) {
  const int64_t wanted = CeilDiv(int64_t{c.multiprocessors} * 8, s.tiles), most = CeilDiv(s.rows, s.at_once * rows);
  return dim3(static_cast<unsigned>(s.tiles), static_cast<unsigned>(std::min(wanted, most)));
}

}  // namespace

void Compute(const ops::BatchNormStatistics& o, const Context& c) {
  const CudaSweep s(o.x);
  if (s.channels == 0) return;
  ForFloat(o.x.dtype(), [&]<class T>() {
    using A = Wide<T>;
    A *first = reinterpret_cast<A*>(c.workspace), *second = first + s.slabs * s.channels, *out = At<A>(o.statistics);
    Launch(SlabMoments<T>, BlocksOfSlabs(s), dim3(kThreads), 0, c.stream, At<T>(o.x), s,
           PacksFit(s.piece, s.channels, {&o.x}), first, second);
    Launch(MergeSlabs<A>, BlocksOfChannels(s, 1), dim3(kWarp, kWarp), 0, c.stream, first, second, s, out,
           out + s.channels);
  });
}

void Compute(const ops::BatchNormSums& o, const Context& c) {
  const CudaSweep s(o.x);
  if (s.channels == 0) return;
  ForFloat(o.x.dtype(), [&]<class T>() {
    using A = Wide<T>;
    A *first = reinterpret_cast<A*>(c.workspace), *second = first + s.slabs * s.channels;
    Launch(SlabSums<T>, BlocksOfSlabs(s), dim3(kThreads), 0, c.stream, At<T>(o.dy), At<T>(o.x), At<T>(o.y),
           At<A>(o.mean), At<A>(o.rstd), s, PacksFit(s.piece, s.channels, {&o.x, &o.dy, &o.y}), first, second);
    A* sums = At<A>(o.sums);
    Launch(AddBlocksOfRows<2, A, A>, BlocksOfChannels(s, 2), dim3(kWarp, kWarp), 0, c.stream, first,
           ColumnOutputs<2, A, A>{sums, sums + s.channels}, s.channels, s.slabs, false);
  });
}

void Compute(const ops::BatchNormFinish& o, const Context& c) {
  const int64_t channels = o.mean.numel(), parts = o.parts.empty() ? 0 : o.parts.numel() / (2 * channels);
  const auto finish = [&]<class A, class R>() {
    Launch(FinishChannels<A, R>, dim3(static_cast<unsigned>(CeilDiv(channels, 128))), dim3(128), 0, c.stream,
           At<A>(o.parts), parts, static_cast<double>(o.rows), At<R>(o.running_mean), At<R>(o.running_variance),
           At<A>(o.mean), At<A>(o.rstd), channels, o.momentum, o.eps);
  };
  if (o.mean.dtype() == DType::kF64) return finish.template operator()<double, double>();
  o.running_mean.dtype() == DType::kF64 ? finish.template operator()<float, double>()
                                        : finish.template operator()<float, float>();
}

void Compute(const ops::BatchNormForward& o, const Context& c) {
  const CudaSweep s(o.x);
  ForFloat(o.x.dtype(), [&]<class T>() {
    using A = Wide<T>;
    if (o.x.numel() == 0) return;
    Launch(o.relu ? Normalise<T, true> : Normalise<T, false>, BlocksOfRows(s, kAtOnce, c), dim3(kThreads), 0, c.stream,
           At<T>(o.x), At<T>(o.gamma), At<T>(o.beta), At<A>(o.mean), At<A>(o.rstd), At<T>(o.y), s,
           PacksFit(s.piece, s.channels, {&o.x, &o.y}));
  });
}

void Compute(const ops::BatchNormBackward& o, const Context& c) {
  const CudaSweep s(o.x);
  ForFloat(o.x.dtype(), [&]<class T>() {
    using A = Wide<T>;
    if (o.x.numel() == 0) return;
    Launch(NormaliseBackward<T>, BlocksOfRows(s, 2, c), dim3(kThreads), 0, c.stream, At<T>(o.dy), At<T>(o.x),
           At<T>(o.y), At<T>(o.gamma), At<A>(o.mean), At<A>(o.rstd), At<A>(o.sums), At<T>(o.dx),
           static_cast<double>(o.rows), s, PacksFit(s.piece, s.channels, {&o.x, &o.dy, &o.y, &o.dx}));
  });
}

}  // namespace twofold::cuda
