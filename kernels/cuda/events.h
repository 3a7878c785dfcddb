// A pool of CUDA events, and queries on events.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/error.h"

namespace twofold::cuda {

// Makes `gpu` the current GPU of the calling thread, as launches, records and allocations require. Each thread keeps
// the GPU that it asked for last, so that CUDA is called only if it is another. Nothing else may call cudaSetDevice
// (gpu_source_test); libraries leave the current GPU as it is. Throws CudaError.
void MakeCurrent(int gpu);
// The same where nothing may be thrown: a later call reports what is wrong.
void MakeCurrentIfPossible(int gpu) noexcept;

// Reuses CUDA events, because creating one costs more than recording it. Any thread may use it.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  // `timed`: events record times, for ElapsedMs. `sleeps`: a thread that waits for an event sleeps until an interrupt
  // instead of spinning.
  EventPool(int gpu, bool timed, bool sleeps = false) : gpu_(gpu), timed_(timed), sleeps_(sleeps) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Returns its event to the pool and keeps the pool alive.
  class Entry {
   public:
    Entry() = default;
    Entry(std::shared_ptr<EventPool> pool, cudaEvent_t event) : pool_(std::move(pool)), event_(event) {}
    Entry(Entry&& other) noexcept : pool_(std::move(other.pool_)), event_(other.event_) {}
    Entry& operator=(Entry&& other) noexcept {
      std::swap(pool_, other.pool_), std::swap(event_, other.event_);
      return *this;
    }
    ~Entry();
    cudaEvent_t get() const { return event_; }

   private:
    std::shared_ptr<EventPool> pool_;
    cudaEvent_t event_ = nullptr;
  };
  // Records a new event on `stream`, which must belong to the current GPU.
  Entry Record(cudaStream_t stream);

 private:
  const int gpu_;
  const bool timed_, sleeps_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

bool Happened(cudaEvent_t event);                    // throws CudaError
double ElapsedMs(cudaEvent_t from, cudaEvent_t to);  // between two timed events that have happened; throws CudaError

}  // namespace twofold::cuda
