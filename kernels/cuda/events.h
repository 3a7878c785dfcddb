// CUDA events: a pool of them, and what they say.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/error.h"

namespace twofold::cuda {

// Makes `gpu` the current one of the calling thread, as launches, records and reservations need it. Costs next to nothing
// where it is that already.
void MakeCurrent(int gpu);

// Events of CUDA that are used again and again: making one costs more than recording it. Any thread may use it.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  // `timed`: they keep the time, for ElapsedMs. `sleeps`: who waits for one sleeps until an interrupt instead of keeping a core busy.
  EventPool(int gpu, bool timed, bool sleeps = false) : gpu_(gpu), timed_(timed), sleeps_(sleeps) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Goes back to its pool, which lives as long.
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
  // A new one recorded on `stream`, which belongs to the current GPU.
  Entry Record(cudaStream_t stream);

 private:
  const int gpu_;
  const bool timed_, sleeps_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

bool Happened(cudaEvent_t event);                      // throws CudaError
double ElapsedMs(cudaEvent_t from, cudaEvent_t to);    // of two timed ones that have happened; throws CudaError

}  // namespace twofold::cuda
