#include "kernels/cuda/events.h"

namespace twofold::cuda {

namespace {
constinit thread_local int current_gpu = -1;  // none asked for yet: CUDA's own default makes no context
}  // namespace

void MakeCurrent(int gpu) {
  if (gpu == current_gpu) [[likely]]
    return;
  Check(cudaSetDevice(gpu));
  current_gpu = gpu;
}

void MakeCurrentIfPossible(int gpu) noexcept {
  if (gpu != current_gpu && cudaSetDevice(gpu) == cudaSuccess) current_gpu = gpu;
}

EventPool::~EventPool() {
  for (cudaEvent_t event : free_) cudaEventDestroy(event);  // after an error there is nobody left to report it to
}

EventPool::Entry EventPool::Record(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) event = free_.back(), free_.pop_back();
  }
  if (event == nullptr) {
    MakeCurrent(gpu_);
    Check(cudaEventCreateWithFlags(
        &event, (timed_ ? cudaEventDefault : cudaEventDisableTiming) | (sleeps_ ? cudaEventBlockingSync : 0)));
  }
  Entry entry(shared_from_this(), event);
  Check(cudaEventRecord(event, stream));
  return entry;
}

EventPool::Entry::~Entry() {
  if (pool_ == nullptr) return;
  std::lock_guard lock(pool_->mutex_);
  pool_->free_.push_back(event_);  // a wait in progress refers to the record at which it began
}

bool Happened(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // otherwise a later cudaGetLastError would report this as an error
    return false;
  }
  Check(status);
  return true;
}

double ElapsedMs(cudaEvent_t from, cudaEvent_t to) {
  float ms = 0;
  Check(cudaEventElapsedTime(&ms, from, to));
  return static_cast<double>(ms);
}

}  // namespace twofold::cuda
