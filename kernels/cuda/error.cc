#include "kernels/cuda/error.h"

namespace twofold::cuda {
namespace {

// cudaErrorStubLibrary, cudaErrorInsufficientDriver, cudaErrorNoDevice: there is no GPU that could fail. (An emulated
// CUDA knows but the last.)
bool MeansNoGpu(cudaError_t error) { return error == 34 || error == 35 || error == cudaErrorNoDevice; }

}  // namespace

void Check(cudaError_t status) {
  if (status == cudaSuccess) [[likely]]
    return;
  throw CudaError(std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status));
}

void ThrowIfGpuFailed(const std::string& while_doing, cudaStream_t stream) {
  cudaGetLastError();  // an error of the GPU stays
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaError_t state = cudaStreamIsCapturing(stream, &capturing);  // a query would end the capture
  if (capturing != cudaStreamCaptureStatusNone) throw CudaError(while_doing + " (while a graph was captured)");
  state = cudaStreamQuery(stream);
  if (state != cudaSuccess && state != cudaErrorNotReady && !MeansNoGpu(state))
    throw CudaError(std::string(cudaGetErrorName(state)) + ": " + cudaGetErrorString(state) + " (found after \"" +
                    while_doing + "\")");
  cudaGetLastError();  // cudaErrorNotReady would be taken for an error, too
}

}  // namespace twofold::cuda
