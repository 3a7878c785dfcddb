// The arithmetic of collectives: reduces the values of many ranks to one.
#pragma once

#include <cstdint>
#include <span>

#include "core/comm/reduce_op.h"
#include "core/tensor/dtype.h"

namespace twofold::cpu {

// For each element in [first, first + count): combines it over inputs[0], inputs[1], ... in that order and writes the
// result to every output. `inputs` and `outputs` hold the addresses of whole arrays of `dtype`. There must be at least
// one input. An output may be an input (the same address) but may not overlap one otherwise.
//
// bf16 and f16 accumulate in f32 and are rounded once; f64, f32, i32 and u8 accumulate in their own type, where
// integers wrap. kAvg is the sum, divided at the end by the number of inputs (integers: truncated). Every input byte is
// read once and every output byte written once. Callers may divide the elements among threads freely: the result of an
// element depends only on its own inputs.
void ReduceSlices(std::span<const void* const> inputs, std::span<void* const> outputs, DType dtype, ReduceOp op,
                  int64_t first, int64_t count);

// Divides `count` elements by `by`, as ReduceSlices ends a kAvg: for fabrics whose library only supports sums.
void DivideAll(void* values, DType dtype, int64_t count, int64_t by);

}  // namespace twofold::cpu
