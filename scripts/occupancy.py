"""How many blocks of a kernel a multiprocessor holds at once, by the rules that NVIDIA publishes: cuda_occupancy.h of the CUDA toolkit
(cudaOccMaxActiveBlocksPerMultiprocessor) with the limits of the CUDA C++ Programming Guide, "Compute Capabilities", table "Technical
Specifications per Compute Capability". tests/gpu/kernel_table_test.py compares it with cuda_occupancy.h.
"""
import dataclasses

WARP, PARTITIONS = 32, 4  # a multiprocessor has four parts, each with a quarter of the registers
REGISTERS, REGISTERS_OF_BLOCK, REGISTERS_OF_THREAD = 65536, 65536, 255
REGISTER_UNIT, SHARED_UNIT, RESERVED_SHARED = 256, 128, 1024  # registers of a warp and bytes of a block are rounded up; bytes for the driver


@dataclasses.dataclass(frozen=True)
class Gpu:
    warps: int
    blocks: int
    shared: int  # bytes of a multiprocessor
    shared_of_block: int  # at most, with the driver's


# By compute capability. The largest share of the L1 cache that can be shared memory is assumed, which the driver chooses by itself for kernels
# that need it.
GPUS = {80: Gpu(64, 32, 164 << 10, 164 << 10), 90: Gpu(64, 32, 228 << 10, 228 << 10), 100: Gpu(64, 32, 228 << 10, 228 << 10)}


def up(x, unit):
    return (x + unit - 1) // unit * unit


@dataclasses.dataclass(frozen=True)
class Occupancy:
    blocks: int
    percent: float  # of the warps that a multiprocessor can hold
    limit: str


def occupancy(capability, registers, threads, shared):
    """`shared`: static and dynamic bytes of a block, without the driver's."""
    gpu = GPUS[capability]
    warps = up(threads, WARP) // WARP
    of_warp = up(registers * WARP, REGISTER_UNIT)
    of_block = up(shared + RESERVED_SHARED, SHARED_UNIT)
    by = {"warps": gpu.warps // warps, "blocks": gpu.blocks}
    if registers > REGISTERS_OF_THREAD or of_warp * up(warps, PARTITIONS) > REGISTERS_OF_BLOCK:
        by["registers"] = 0
    elif of_warp > 0:
        by["registers"] = REGISTERS // PARTITIONS // of_warp * PARTITIONS // warps
    by["shared memory"] = 0 if of_block > gpu.shared_of_block else gpu.shared // of_block
    limit = min(by, key=by.get)
    return Occupancy(by[limit], 100 * by[limit] * warps / gpu.warps, limit)
