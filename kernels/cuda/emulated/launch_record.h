// Which kernels a process launches, and with what blocks: TWOFOLD_EMULATED_LAUNCHES=FILE appends a line to FILE for
// each new combination:
//   <program> <offset of the kernel within it, in hex> <threads of a block> <bytes of dynamic shared memory>
// scripts/kernel_table.py names the kernels and computes their occupancy on real GPUs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twofold::emulated {

// Any thread may call it. Costs a load if nothing is recorded.
void RecordLaunch(const void* kernel, uint64_t threads, size_t shared);

}  // namespace twofold::emulated
