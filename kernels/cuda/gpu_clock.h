// Converts times of GPU events to the host's clock.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>

#include "kernels/cuda/events.h"

namespace twofold::cuda {

// Measures times relative to an event at which the clocks of the GPU and the host were read together. This reference is
// taken at the first query, and again when it is more than a second old, because elapsed times are floats and lose
// precision with a distant event. Any thread may use it.
class GpuClock {
 public:
  GpuClock(int gpu, std::shared_ptr<EventPool> timed) : gpu_(gpu), timed_(std::move(timed)) {}
  ~GpuClock();
  GpuClock(const GpuClock&) = delete;
  GpuClock& operator=(const GpuClock&) = delete;

  // Seconds of std::chrono::steady_clock.
  struct Interval {
    double start, end;
  };
  // Both events must be timed and have happened. Throws CudaError.
  Interval Of(cudaEvent_t start, cudaEvent_t end);

 private:
  void Set();  // the lock must be held

  const int gpu_;
  const std::shared_ptr<EventPool> timed_;
  std::mutex mutex_;
  cudaStream_t stream_ = nullptr;  // a separate stream without other work; null until the first query
  EventPool::Entry event_;
  double time_ = 0;  // of the event
};

}  // namespace twofold::cuda
