// One function per operation: it enqueues the arithmetic on a GPU stream. Shapes have already been checked.
//
// Kernels are deterministic: no result depends on the order in which blocks run. They use only the part of CUDA that
// emulated/cuda_runtime.h declares, so they also run without a GPU (cmake/cuda.cmake).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "core/device/ops.h"

namespace twofold::cuda {

class Libraries;  // libraries.h: cuBLASLt and cuDNN

struct Context {
  cudaStream_t stream;
  std::byte* workspace;  // of ops::Workspace's size, aligned to 512 bytes
  size_t workspace_bytes;
  int multiprocessors;  // of the GPU
  Libraries& libraries;
};

#define TWOFOLD_COMPUTE(Operation) void Compute(const ops::Operation& o, const Context& c);
TWOFOLD_OPERATIONS(TWOFOLD_COMPUTE)
#undef TWOFOLD_COMPUTE

// ---- Shared by several kernels ----

// The address of a tensor's elements on the GPU; null if there is no tensor. T is one of numbers.h, float, double,
// int32_t, uint8_t.
template <class T>
T* At(const Tensor& t) {
  return t.empty() ? nullptr : reinterpret_cast<T*>(t.address());
}

// Rows are all dimensions but the last.
inline int64_t Columns(const Tensor& t) { return t.dim(-1); }
inline int64_t Rows(const Tensor& t) { return Columns(t) == 0 ? 0 : t.numel() / Columns(t); }

}  // namespace twofold::cuda
