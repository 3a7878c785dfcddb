// The k largest of many elements.
//
// The magnitude of the k-th largest is found digit by digit from the top (radix select): all blocks add up integer
// counts, so the order does not matter. Then each tile counts its elements above that magnitude, and those equal to it.
// This tells where each tile's chosen elements begin, and how many of that magnitude the previous tiles leave to it.
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

using ops::rules::kTopKBins;
using ops::rules::kTopKDigit;
using ops::rules::kTopKTile;

constexpr int kBlock = 256, kEach = static_cast<int>(kTopKTile) / kBlock;  // neighbouring elements per thread

// T has the size of an element. Works on the bits of |x|, which have the order of the numbers; NaN is the largest.
template <class T>
constexpr int kSizeBits = 8 * sizeof(T) - 1;
template <class T>
__device__ inline T SizeOf(T bits) {
  return bits & static_cast<T>(~(T(1) << kSizeBits<T>));
}

// The result so far: the upper digits of the k-th largest, and how many are still to be found among the elements with
// these digits.
struct Found {
  unsigned long long upper;
  unsigned left;
};

__global__ void __launch_bounds__(kBlock) BeginSearch(Found* found, unsigned k, unsigned* bins) {
  for (int i = static_cast<int>(threadIdx.x); i < kTopKBins; i += kBlock) bins[i] = 0;
  if (threadIdx.x == 0) *found = {0, k};
}

// bins[d] += the number of elements whose bits [high, ..) equal found->upper and whose bits [low, high) are d.
template <class T>
__global__ void __launch_bounds__(kBlock)
    CountDigits(const T* in, int64_t n, bool packs, int high, int low, const Found* found, unsigned* bins) {
  __shared__ unsigned mine[kTopKBins];
  for (int i = static_cast<int>(threadIdx.x); i < kTopKBins; i += kBlock) mine[i] = 0;
  const auto upper = found->upper;
  const auto mask = (1ull << (high - low)) - 1;
  __syncthreads();
  const auto count = [&](T bits) {
    const unsigned long long size = SizeOf(bits);
    if (size >> high == upper) atomicAdd(&mine[size >> low & mask], 1u);
  };
  const int64_t thread = int64_t{blockIdx.x} * kBlock + threadIdx.x, threads = int64_t{gridDim.x} * kBlock;
  constexpr int kN = kPerLoad<T>, kUnroll = 4;
  const int64_t whole = packs ? n / kN : 0;
  for (int64_t i = thread; i < whole; i += threads * kUnroll) {
    Raw<T, kN> x[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (i + u * threads < whole) x[u] = LoadRaw<kN>(in + (i + u * threads) * kN);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (i + u * threads >= whole) break;
#pragma unroll
      for (int k = 0; k < kN; ++k) count(x[u][k]);
    }
  }
  for (int64_t i = whole * kN + thread; i < n; i += threads) count(in[i]);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTopKBins; i += kBlock) {
    if (mine[i] != 0) atomicAdd(&bins[i], mine[i]);
  }
}

// The sum of x over the threads before this one; *all is the sum over all threads. For blocks of at most 32 warps.
__device__ inline unsigned SumBefore(unsigned x, unsigned* all) {
  __shared__ unsigned of_warps[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  unsigned sum = x;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const unsigned before = __shfl_up_sync(kAllLanes, sum, static_cast<unsigned>(step));
    if (lane >= step) sum += before;
  }
  __syncthreads();  // an earlier call's sums have been read
  if (lane == kWarp - 1) of_warps[warp] = sum;
  __syncthreads();
  unsigned before = 0;
  *all = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / kWarp; ++w) {
    if (w < warp) before += of_warps[w];
    *all += of_warps[w];
  }
  return before + sum - x;
}

// Finds the digit of the found->left-th largest element, and clears the bins for the next digit.
__global__ void __launch_bounds__(kTopKBins / 2) ChooseDigit(Found* found, int width, unsigned* bins) {
  const int top = (1 << width) - 1;
  const unsigned left = found->left;
  const auto upper = found->upper;
  int digit[2];
  unsigned counts[2] = {}, all;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    digit[i] = top - (2 * static_cast<int>(threadIdx.x) + i);
    if (digit[i] >= 0) counts[i] = bins[digit[i]];
  }
  unsigned above = SumBefore(counts[0] + counts[1], &all);  // after this, all threads have read the previous result
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (digit[i] >= 0) bins[digit[i]] = 0;
    if (above < left && left <= above + counts[i])
      *found = {upper << width | static_cast<unsigned>(digit[i]), left - above};
    above += counts[i];
  }
}

// How many elements are above the magnitude found, plus 2^16 times how many are equal to it. Elements past the end do
// not count.
template <class T>
__device__ inline unsigned CountOf(const T (&x)[kEach], int64_t begin, int64_t n, unsigned long long size) {
  unsigned count = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (begin + i < n) count += SizeOf(x[i]) > size ? 1u : SizeOf(x[i]) == size ? 1u << 16 : 0u;
  }
  return count;
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    CountTiles(const T* in, int64_t n, bool packs, const Found* found, unsigned* above, unsigned* equal) {
  const int64_t begin = blockIdx.x * kTopKTile + static_cast<int>(threadIdx.x) * kEach;
  T x[kEach];
  LoadSome(in + begin, packs && begin + kEach <= n, n - begin, x);
  const unsigned count = BlockSum(CountOf(x, begin, n, found->upper));
  if (threadIdx.x == 0) above[blockIdx.x] = count & 0xffff, equal[blockIdx.x] = count >> 16;
}

// Replaces each tile's counts by the sums over the previous tiles.
constexpr int kSumBlock = 1024;
__global__ void __launch_bounds__(kSumBlock) SumTilesBefore(unsigned* above, unsigned* equal, int64_t tiles) {
  const int64_t each = (tiles + kSumBlock - 1) / kSumBlock, begin = min(int64_t{threadIdx.x} * each, tiles),
                end = min(begin + each, tiles);
  unsigned* const counts[2] = {above, equal};
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    unsigned sum = 0, all;
    for (int64_t i = begin; i < end; ++i) sum += counts[k][i];
    sum = SumBefore(sum, &all);
    for (int64_t i = begin; i < end; ++i) {
      const unsigned count = counts[k][i];
      counts[k][i] = sum;
      sum += count;
    }
  }
}

// `k` is 0 if nothing is chosen; residual may be null.
template <class T>
__global__ void __launch_bounds__(kBlock)
    WriteChosen(const T* in, int64_t n, bool packs, const Found* found, const unsigned* above, const unsigned* equal,
                T* values, int32_t* indices, T* residual) {
  const int64_t begin = blockIdx.x * kTopKTile + static_cast<int>(threadIdx.x) * kEach;
  const auto size = found->upper;
  const unsigned left = found->left;
  T x[kEach];
  LoadSome(in + begin, packs && begin + kEach <= n, n - begin, x);
  unsigned all;
  const unsigned before = SumBefore(CountOf(x, begin, n, size), &all);
  unsigned larger = above[blockIdx.x] + (before & 0xffff), ties = equal[blockIdx.x] + (before >> 16);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (begin + i >= n) break;
    const bool is_larger = SizeOf(x[i]) > size, is_tie = SizeOf(x[i]) == size;
    if (is_larger || (is_tie && ties < left)) {
      const unsigned to = larger + min(ties, left);
      values[to] = x[i];
      indices[to] = static_cast<int32_t>(begin + i);
      x[i] = 0;
    }
    larger += is_larger, ties += is_tie;
  }
  if (residual != nullptr) StoreSome(residual + begin, packs && begin + kEach <= n, n - begin, x);
}

template <class T>
void TakeLargest(const ops::TopK& o, const Context& c) {
  const int64_t n = o.in.numel(), k = o.values.numel(), tiles = CeilDiv(n, kTopKTile),
                spare = CeilDiv(tiles, 128) * 128;
  auto* found = reinterpret_cast<Found*>(c.workspace);
  auto* bins = reinterpret_cast<unsigned*>(c.workspace + 512);
  unsigned *above = bins + CeilDiv(kTopKBins, 128) * 128, *equal = above + spare;
  TWOFOLD_CHECK_LE(reinterpret_cast<std::byte*>(equal + spare), c.workspace + c.workspace_bytes);
  const bool packs = PacksFit(kPerLoad<T>, kPerLoad<T>, {&o.in, &o.residual});
  const T* in = At<T>(o.in);
  Launch(BeginSearch, 1, kBlock, 0, c.stream, found, k, bins);
  const unsigned blocks = GridFor(CeilDiv(n, kPerLoad<T>), kBlock, c.multiprocessors);
  for (int high = kSizeBits<T>; high > 0;) {
    const int low = std::max(high - kTopKDigit, 0);
    Launch(CountDigits<T>, blocks, kBlock, 0, c.stream, in, n, packs, high, low, found, bins);
    Launch(ChooseDigit, 1, kTopKBins / 2, 0, c.stream, found, high - low, bins);
    high = low;
  }
  Launch(CountTiles<T>, static_cast<unsigned>(tiles), kBlock, 0, c.stream, in, n, packs, found, above, equal);
  Launch(SumTilesBefore, 1, kSumBlock, 0, c.stream, above, equal, tiles);
  Launch(WriteChosen<T>, static_cast<unsigned>(tiles), kBlock, 0, c.stream, in, n, packs, found, above, equal,
         At<T>(o.values), At<int32_t>(o.indices), At<T>(o.residual));
}

}  // namespace

void Compute(const ops::TopK& o, const Context& c) {
  if (o.values.numel() == 0) {  // everything goes to the residual
    if (!o.residual.empty()) Compute(ops::Cast{.in = o.in, .out = o.residual}, c);
    return;
  }
  ForBits(o.in.dtype(), [&]<class T>() { TakeLargest<T>(o, c); });
}

}  // namespace twofold::cuda
