// Sums and maxima over a warp and a block: in a fixed order, so that the same numbers give the same result. For .cu files only.
#pragma once

#include "kernels/cuda/launch.h"

namespace twofold::cuda {

struct PlusOf {
  template <class T> __device__ T operator()(T a, T b) const { return a + b; }
};
struct MaximumOf {
  template <class T> __device__ T operator()(T a, T b) const { return a > b ? a : b; }
};

// Of all 32 lanes, which must all call; every lane has the result.
template <class T, class F>
__device__ inline T WarpReduce(T x, F f) {
  for (int step = kWarp / 2; step > 0; step /= 2) x = f(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}
template <class T> __device__ inline T WarpSum(T x) { return WarpReduce(x, PlusOf()); }
template <class T> __device__ inline T WarpMax(T x) { return WarpReduce(x, MaximumOf()); }

// Of all threads of a block of one dimension, a multiple of 32, at most 1024, which must all call; every thread has the result. One
// call after another is safe. `of_none` is what f leaves alone: 0 of sums.
template <class T, class F>
__device__ inline T BlockReduce(T x, F f, T of_none) {
  __shared__ T of_warps[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  x = WarpReduce(x, f);
  __syncthreads();  // an earlier call's results have been read
  if (lane == 0) of_warps[warp] = x;
  __syncthreads();
  return WarpReduce(lane < warps ? of_warps[lane] : of_none, f);
}
template <class T> __device__ inline T BlockSum(T x) { return BlockReduce(x, PlusOf(), T(0)); }

}  // namespace twofold::cuda
