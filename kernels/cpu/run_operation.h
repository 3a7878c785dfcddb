// How the CPU device runs an operation.
#pragma once

#include <cstddef>
#include <span>

#include "core/device/ops.h"
#include "kernels/cpu/thread_pool.h"

namespace twofold::cpu {

// Computes `op` on the calling thread and the pool's, with the kernels of the level in use (levels.h). `scratch` is the
// memory that ops::Workspace asks for. Shapes have been checked before.
void RunOperation(const ops::AnyOp& op, ThreadPool& pool, std::span<std::byte> scratch);

}  // namespace twofold::cpu
