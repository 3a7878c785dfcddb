// The arithmetic of collectives on a GPU: many ranks' values into one, or one rank's to many. Enqueued on a stream.
//
// Addresses are those of memory that the stream's GPU reaches: its own, or that of a peer to which access has been enabled.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "core/comm/reduce_op.h"
#include "core/tensor/dtype.h"

namespace twofold::cuda {

inline constexpr int kMostArrays = 128;  // inputs, and outputs, of one call: what a kernel's arguments hold

// As cpu::ReduceSlices, bit for bit (NaNs of bf16 excepted: their payload is the processor's choice): for each element in
// [first, first + count) combines inputs[0], inputs[1], ... in that order and writes the result to every output. An output
// may be an input (the same address) but may not overlap one otherwise. Every input byte is read once, in loads of 16 bytes where
// all addresses are multiples of 16.
void ReduceSlices(std::span<const void* const> inputs, std::span<void* const> outputs, DType dtype, ReduceOp op, int64_t first,
                  int64_t count, int multiprocessors, cudaStream_t stream);

// As cpu::DivideAll, bit for bit: each of `count` elements divided by `by`.
void DivideAll(void* data, DType dtype, int64_t count, int by, int multiprocessors, cudaStream_t stream);

// `bytes` bytes of `from` to each of `to` that is another address; they do not overlap otherwise.
void CopyToAll(std::span<char* const> to, const char* from, int64_t bytes, int multiprocessors, cudaStream_t stream);

}  // namespace twofold::cuda
