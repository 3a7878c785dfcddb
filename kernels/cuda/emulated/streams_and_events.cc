// CUDA's stream and event functions.
#include "kernels/cuda/emulated/device_memory.h"
#include "kernels/cuda/emulated/state.h"

using namespace twofold::emulated;

struct CUevent_st {
  const int device;
  const bool timed;
  std::atomic<const Mark*> mark{nullptr};  // where it was last recorded
};

// ---- Streams ----

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(flags > cudaStreamNonBlocking, cudaErrorInvalidValue);
  *stream = NewStream(Current(), flags == cudaStreamDefault);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  TWOFOLD_RETURN_IF(stream == nullptr || !stream->alive(), cudaErrorInvalidResourceHandle);
  TWOFOLD_RETURN_IF_CAPTURED(stream);
  stream->Close();
  return Say(Failed());
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  TWOFOLD_RETURN_IF_CAPTURED(handle);
  InOrder(handle, stream, [](CUstream_st* s) { s->Record()->Wait(); });
  return Say(Failed());
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  TWOFOLD_RETURN_IF_CAPTURED(handle);
  return Say(stream->idle() ? Failed() : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(event == nullptr, cudaErrorInvalidResourceHandle);
  CUstream_st* stream = handle != nullptr && handle->alive() ? handle : Find(handle);  // a stream of any GPU
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  TWOFOLD_RETURN_IF_CAPTURED(handle);
  if (const Mark* mark = event->mark.load(std::memory_order_acquire))
    InOrder(handle, stream, [=](CUstream_st* s) { s->WaitFor(mark); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  TWOFOLD_RETURN_IF(function == nullptr, cudaErrorInvalidValue);
  return EnqueueOnHost(stream, [=] {
    ReachDeviceMemory(false);
    function(data);
    ReachDeviceMemory(true);
  });
}

// ---- Events ----

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  TWOFOLD_RETURN_UNLESS_READY();
  *event = new CUevent_st{.device = current_device, .timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  TWOFOLD_RETURN_IF(event == nullptr, cudaErrorInvalidResourceHandle);
  delete event;
  return Say(Failed());
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(event == nullptr, cudaErrorInvalidResourceHandle);
  CUstream_st* stream = handle != nullptr && handle->alive() ? handle : Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr || stream->device != event->device, cudaErrorInvalidResourceHandle);
  TWOFOLD_RETURN_IF_CAPTURED(handle);
  CountCall(event->timed ? Call::kRecordTimed : Call::kRecordUntimed);
  InOrder(handle, stream, [=](CUstream_st* s) { event->mark.store(s->Record(), std::memory_order_release); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF_CAPTURING();
  TWOFOLD_RETURN_IF(event == nullptr, cudaErrorInvalidResourceHandle);
  const Mark* mark = event->mark.load(std::memory_order_acquire);
  return Say(mark == nullptr || mark->reached() ? Failed() : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF_CAPTURING();
  TWOFOLD_RETURN_IF(event == nullptr, cudaErrorInvalidResourceHandle);
  if (const Mark* mark = event->mark.load(std::memory_order_acquire)) mark->Wait();
  return Say(Failed());
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(start == nullptr || end == nullptr || !start->timed || !end->timed, cudaErrorInvalidResourceHandle);
  const Mark *from = start->mark.load(std::memory_order_acquire), *to = end->mark.load(std::memory_order_acquire);
  TWOFOLD_RETURN_IF(from == nullptr || to == nullptr, cudaErrorInvalidResourceHandle);
  TWOFOLD_RETURN_IF(!from->reached() || !to->reached(), cudaErrorNotReady);
  *ms = static_cast<float>((to->time() - from->time()) * 1e3);
  return cudaSuccess;
}
