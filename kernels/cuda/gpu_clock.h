// Times of a GPU's events on the host's clock.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>

#include "kernels/cuda/events.h"

namespace twofold::cuda {

// Tells times from an event at which the clocks of the GPU and of the host were read together. That is done when a time is first asked
// for, and anew once it is a second ago: elapsed times are floats, so that a distant event would blur them. Any thread may use it.
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
  // Of two timed events that have happened. Throws CudaError.
  Interval Of(cudaEvent_t start, cudaEvent_t end);

 private:
  void Set();  // with the lock held

  const int gpu_;
  const std::shared_ptr<EventPool> timed_;
  std::mutex mutex_;
  cudaStream_t stream_ = nullptr;  // its own, which has nothing to wait for; null: no time was asked for yet
  EventPool::Entry event_;
  double time_ = 0;  // of the event
};

}  // namespace twofold::cuda
