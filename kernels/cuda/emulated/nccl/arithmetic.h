// Element types and reductions of the emulated NCCL.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/cuda/emulated/nccl/nccl.h"

namespace twofold::emulated {

size_t SizeOf(ncclDataType_t type);  // 0: not a valid type
const char* NameOf(ncclDataType_t type);
const char* NameOf(ncclRedOp_t op);

// to[i] = the reduction of from[k][i] over k = first, first + 1, ..., first - 1 (modulo from.size()), rounded to the
// type at every step, as in a ring in which each rank adds its own values. `to` may be one of `from`.
void Reduce(std::span<const std::byte* const> from, int first, std::byte* to, size_t count, ncclDataType_t type,
            ncclRedOp_t op);

}  // namespace twofold::emulated
