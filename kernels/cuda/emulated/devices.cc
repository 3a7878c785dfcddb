// CUDA's device management functions.
#include <cstdio>

#include "kernels/cuda/emulated/state.h"

using namespace twofold::emulated;

static constexpr int kMultiprocessors = 4;  // few, so that grid-stride loops iterate

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(Cuda().gpus.size());
  TWOFOLD_RETURN_UNLESS_READY();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  CountCall(Call::kSetDevice);
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(!IsGpu(device), cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  TWOFOLD_RETURN_UNLESS_READY();
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(!IsGpu(device), cudaErrorInvalidDevice);
  *p = {};
  std::snprintf(p->name, sizeof(p->name), "Emulated GPU");
  p->totalGlobalMem = Cuda().bytes;
  static const auto capability = static_cast<int>(FromEnvironment("TWOFOLD_EMULATED_CAPABILITY", 90));
  p->major = capability / 10, p->minor = capability % 10;
  p->multiProcessorCount = kMultiprocessors;
  p->l2CacheSize = 1 << 20;
  p->pciBusID = device + 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    default: return Say(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF_CAPTURING();
  if (const cudaError_t e = ForbiddenWhileGpuCaptures(current_device); e != cudaSuccess) return Say(e);
  SynchronizeGpu(Current());
  return Say(Failed());
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(!IsGpu(device) || !IsGpu(peer), cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(!IsGpu(peer) || peer == current_device, cudaErrorInvalidDevice);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
