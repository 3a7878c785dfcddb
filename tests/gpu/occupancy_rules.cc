// Reads lines "capability registers threads shared" and prints how many blocks a multiprocessor holds, by NVIDIA's own
// rules. kernel_table_test.py compares them with scripts/occupancy.py.
#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdio>

#include "cuda_occupancy.h"

int main() {
  int capability = 0, registers = 0, threads = 0;
  size_t shared = 0;
  while (std::scanf("%d %d %d %zu", &capability, &registers, &threads, &shared) == 4) {
    cudaOccDeviceProp gpu;
    gpu.computeMajor = capability / 10, gpu.computeMinor = capability % 10;
    gpu.maxThreadsPerBlock = 1024, gpu.maxThreadsPerMultiprocessor = 2048, gpu.warpSize = 32, gpu.numSms = 1;
    gpu.regsPerBlock = gpu.regsPerMultiprocessor = 65536;
    gpu.sharedMemPerMultiprocessor = static_cast<size_t>(capability == 80 ? 164 : 228) << 10;
    gpu.reservedSharedMemPerBlock = 1024, gpu.sharedMemPerBlock = 48 << 10;
    gpu.sharedMemPerBlockOptin = gpu.sharedMemPerMultiprocessor - 1024;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024, kernel.numRegs = registers, kernel.sharedSizeBytes = 0;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, kernel.maxDynamicSharedSizeBytes = shared;
    cudaOccDeviceState state;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    const cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &gpu, &kernel, &state, threads, shared);
    std::printf("%d\n", error == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -1);
  }
}
