// The part of the CUDA runtime that Twofold uses, emulated on the host's cores. Names, signatures and errors are CUDA's
// (13).
//
//   Devices    TWOFOLD_EMULATED_GPUS (1) GPUs of TWOFOLD_EMULATED_GPU_MIB (8192) MiB each, of which a context takes 256
//              MiB, of compute capability TWOFOLD_EMULATED_CAPABILITY / 10 (90).
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
//   Graphs     come from the capture of one stream, and are launched on a stream. A call that CUDA forbids while a
//   stream
//              captures fails and makes the capture invalid: a wait for the GPU, an allocation, a copy from or to
//              pageable memory, a query of the capturing stream. So does the first launch of a kernel, which loads it.
//              Stricter than CUDA: a capturing stream records no event and waits for none, so no other stream can
//              join it, the mode is not Global, and no graph is launched into a capture.
//
// Not emulated: textures, cooperative groups and clusters, atomics on float that kernels could rely on, any timing.
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
  cudaErrorIllegalState = 401,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotPermitted = 800,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureWrongThread = 908,
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

// ---- Graphs ----

typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};
enum cudaGraphNodeType {
  cudaGraphNodeTypeKernel = 0,
  cudaGraphNodeTypeMemcpy = 1,
  cudaGraphNodeTypeMemset = 2,
  cudaGraphNodeTypeHost = 3,
};
struct cudaGraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};
// As obtained from a node, to be passed on. kernelParams stays valid as long as the node.
struct cudaKernelNodeParams {
  void* func;
  dim3 gridDim, blockDim;
  unsigned sharedMemBytes;
  void **kernelParams, **extra;
};

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id = nullptr, cudaGraph_t* graph = nullptr,
                                     const cudaGraphNode_t** dependencies = nullptr,
                                     const cudaGraphEdgeData** edges = nullptr, size_t* count = nullptr);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type);
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies, cudaGraphEdgeData* edges,
                                         size_t* count);
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags = 0);
// `node`: of the graph that `exec` was made of, which must still exist
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

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
// How often this process has made calls of a kind so far: what a host's time goes to.
enum class Call { kSetDevice, kLaunch, kGraphLaunch, kRecordTimed, kRecordUntimed };
int64_t Calls(Call call);
// Seed of the random orders of threads and blocks.
uint64_t OrderSeed();
// The number of kernel faults (divergence) reported so far.
int Reports();

}  // namespace twofold::emulated
