// The part of the CUDA runtime that Twofold uses, emulated on the host's cores. Names, signatures and errors are CUDA's
// (13).
//
//   Devices    TWOFOLD_EMULATED_GPUS (1) GPUs of TWOFOLD_EMULATED_GPU_MIB (8192) MiB each, of which a context takes 256
//              MiB.
//   Memory     is host memory, filled with 0xff bytes when allocated and when freed. If the processor has protection
//              keys, only the threads of streams can access what cudaMalloc returned, as on a GPU: the host gets a
//              SIGSEGV if it touches it. TWOFOLD_EMULATED_GPUS_WITHIN_REACH=1 turns this off, for libraries that would
//              access a real GPU's memory. Under the address sanitizer the memory comes from the heap, so that errors
//              of kernels are detected.
//   Streams    A host thread per stream executes the stream's work in order. Two threads are ordered only as far as
//              CUDA promises, so that the thread sanitizer detects a missing wait for an event.
//   Copies     between pageable memory and a GPU return when the pageable memory is no longer used; other *Async calls
//              return at once. An address of the wrong kind is an error.
//   Kernels    are in threads.h. Blocks run one after another. A kernel is loaded at its first launch, and the host
//              then waits for all work given to its GPU, as CUDA may do too (CUDA C++ Programming Guide, "Lazy
//              Loading"). There is no such wait if CUDA_MODULE_LOADING is EAGER, nor under the thread sanitizer, which
//              would see an order that is not promised. More than 48 KiB of dynamic shared memory must be requested for
//              that kernel on that GPU.
//   Errors     of launches that no GPU would accept are immediate. Errors of kernels come later and are sticky, as in
//              CUDA: all later calls return them.
//
// Not emulated: graphs, textures, cooperative groups and clusters, atomics on float that kernels could rely on, any
// timing.
#pragma once

#include <functional>
#include <utility>

#include "kernels/cuda/emulated/threads.h"
#include "kernels/cuda/emulated/types.h"

#define CUDART_VERSION 13000

// ---- Errors ----

enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotPermitted = 800,
};
using cudaError_t = cudaError;

cudaError_t cudaGetLastError();  // and resets it, unless it is sticky
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

// ---- Devices ----

enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
};
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int major, minor, multiProcessorCount, l2CacheSize, pciBusID, pciDeviceID, pciDomainID;
};
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);

// ---- Memory ----

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
inline constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1;

typedef struct CUstream_st* cudaStream_t;

cudaError_t cudaMalloc(void** address, size_t bytes);  // a multiple of 512
cudaError_t cudaFree(void* address);                   // waits until all work enqueued on its device is done
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned flags);
cudaError_t cudaMallocHost(void** address, size_t bytes);
cudaError_t cudaFreeHost(void* address);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream = nullptr);
template <class T>
cudaError_t cudaMalloc(T** address, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(address), bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** address, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(address), bytes);
}

// ---- Streams and events. The null stream is CUDA's "legacy" one: it and all blocking streams of its device wait for
// each other ----

typedef struct CUevent_st* cudaEvent_t;
typedef void (*cudaHostFn_t)(void* data);
inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2;

cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);  // returns at once; enqueued work is still done
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
// `function` must not call CUDA
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end);

// ---- Functions ----

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
namespace twofold::emulated {
cudaError_t SetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
}
template <class F>
cudaError_t cudaFuncSetAttribute(F* kernel, cudaFuncAttribute attribute, int value) {
  return twofold::emulated::SetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

namespace twofold::emulated {

// Does what <<<grid, block, shared, stream>>> and cudaGetLastError do. `kernel` runs as every thread; `name` is the
// address of the function that it calls, for reports.
cudaError_t Enqueue(cudaStream_t stream, dim3 grid, dim3 block, size_t shared, const void* name,
                    std::function<void()> kernel);
// The stream's thread calls `work` as one step. Used by the replacements of NVIDIA's libraries. `work` may access the
// GPU's memory.
cudaError_t EnqueueOnHost(cudaStream_t stream, std::function<void()> work);

// Whether [address, address + bytes) is within one allocation of cudaMalloc on this GPU. True for any address if
// `bytes` is 0.
bool OnGpu(int device, const void* address, size_t bytes);

// For tests: when the stream reaches this point, the process's CUDA fails with this error, which stays until Recover.
void FailLater(cudaStream_t stream, cudaError_t error);
void Recover();
// Seed of the random orders of threads and blocks.
uint64_t OrderSeed();
// The number of kernel faults (divergence) reported so far.
int Reports();

}  // namespace twofold::emulated
