// The arithmetic of collectives on a GPU: reduces the values of many ranks, or copies one rank's values to many.
// Enqueued on a stream.
//
// Addresses must be accessible from the stream's GPU: its own memory, or that of a peer to which access has been
// enabled.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "core/comm/reduce_op.h"
#include "core/tensor/dtype.h"

namespace twofold::cuda {

// maximum number of inputs, and of outputs, per call: limited by the size of a kernel's arguments
inline constexpr int kMostArrays = 128;

// Equal to cpu::ReduceSlices bit for bit (except for NaNs of bf16, whose payload depends on the processor): for each
// element in [first, first + count) combines inputs[0], inputs[1], ... in that order and writes the result to every
// output. An output may be one of the inputs (same address) but must not overlap an input otherwise. Every input byte
// is read once, in loads of 16 bytes if all addresses are multiples of 16.
void ReduceSlices(std::span<const void* const> inputs, std::span<void* const> outputs, DType dtype, ReduceOp op,
                  int64_t first, int64_t count, int multiprocessors, cudaStream_t stream);

// Equal to cpu::DivideAll bit for bit: divides each of `count` elements by `by`.
void DivideAll(void* data, DType dtype, int64_t count, int by, int multiprocessors, cudaStream_t stream);

// Copies `bytes` bytes of `from` to every address of `to` that differs from it. They must not overlap otherwise.
void CopyToAll(std::span<char* const> to, const char* from, int64_t bytes, int multiprocessors, cudaStream_t stream);

}  // namespace twofold::cuda
