// Sums and maxima over a warp and a block, in a fixed order, so that equal inputs give equal results. For .cu files
// only.
#pragma once

#include "kernels/cuda/launch.h"

namespace twofold::cuda {

struct PlusOf {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct MaximumOf {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// Reduces over all 32 lanes, which must all call it; every lane gets the result.
template <class T, class F>
__device__ inline T WarpReduce(T x, F f) {
  for (int step = kWarp / 2; step > 0; step /= 2) x = f(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}
template <class T>
__device__ inline T WarpSum(T x) {
  return WarpReduce(x, PlusOf());
}
template <class T>
__device__ inline T WarpMax(T x) {
  return WarpReduce(x, MaximumOf());
}

// Reduces over all threads of a one-dimensional block, whose size is a multiple of 32, at most 1024. All threads must
// call it, and all get the result. Consecutive calls are safe. `of_none` is the neutral element of f: 0 for sums.
template <class T, class F>
__device__ inline T BlockReduce(T x, F f, T of_none) {
  __shared__ T of_warps[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  x = WarpReduce(x, f);
  __syncthreads();  // the results of an earlier call have been read
  if (lane == 0) of_warps[warp] = x;
  __syncthreads();
  return WarpReduce(lane < warps ? of_warps[lane] : of_none, f);
}
template <class T>
__device__ inline T BlockSum(T x) {
  return BlockReduce(x, PlusOf(), T(0));
}

}  // namespace twofold::cuda
