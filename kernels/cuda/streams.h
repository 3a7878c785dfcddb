// CUDA streams and events behind Stream and Event, for CudaDevice and for fabrics that work on a GPU's memory.
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/events.h"
#include "kernels/cuda/gpu_clock.h"

namespace twofold::cuda {

// What a rank launched last, for errors: CUDA reports what went wrong in a kernel at some later call. Any thread may use it.
class LastLaunched {
 public:
  LastLaunched(int rank, int gpu) : rank_(rank), gpu_(gpu) {}
  void Set(const ops::KernelKey& key) {
    std::lock_guard lock(mutex_);
    key_ = key;
  }
  // Throws CudaError, "rank 3 on GPU 0: cudaErrorIllegalAddress: ... the operation launched last: matmul_nt of bf16, 4096 x 768 x 768",
  // unless `status` is success.
  void Check(cudaError_t status) const;
  // call(), with the same added to what it throws.
  template <class F>
  auto Naming(F&& call) const {
    try {
      return call();
    } catch (const CudaError& e) {
      Throw(e.what());
    }
  }

 private:
  [[noreturn]] void Throw(const std::string& what) const;

  const int rank_, gpu_;
  mutable std::mutex mutex_;
  ops::KernelKey key_ = {};  // no name: nothing yet
};

// What the streams of a device share, and of anybody else who works on its GPU for `rank`. Any thread may use it.
struct StreamsOfDevice {
  StreamsOfDevice(int rank, int gpu)
      : gpu(gpu), last(rank, gpu), events(std::make_shared<EventPool>(gpu, false)), timed(std::make_shared<EventPool>(gpu, true)),
        ends(std::make_shared<EventPool>(gpu, true, true)), clock(gpu, timed) {}
  const int gpu;
  LastLaunched last;
  const std::shared_ptr<EventPool> events, timed;
  const std::shared_ptr<EventPool> ends;  // of communications: threads wait for them, of which there may be more than cores
  GpuClock clock;
};

// A point in a stream of a GPU, CudaStream's or another: Event(std::make_shared<CudaEvent>(of, of->timed->Record(stream))). Any thread
// may wait for it.
class CudaEvent : public Event::State {
 public:
  CudaEvent(std::shared_ptr<StreamsOfDevice> of, EventPool::Entry event) : of_(std::move(of)), event_(std::move(event)) {}
  bool Done() override;
  void Wait() override;
  cudaEvent_t get() const { return event_.get(); }

 private:
  const std::shared_ptr<StreamsOfDevice> of_;
  const EventPool::Entry event_;
};

// A CUDA stream that waits for no other unless told to. Used by one thread at a time.
//
// An event of any GPU's is waited for by the stream itself. An event of somebody else (a communication thread's) is waited for
// by the host: what it launches afterwards starts after the event, which is what WaitFor promises.
//
// stalled() is measured on the GPU, by two events that keep the time: one when the stream has come to the wait, one when it goes on.
// The work before it is thus not counted, though the host may have waited all along. What is counted is over when stalled() is
// called; waits that the stream is still in count later. Waiting for what has happened already costs a query and counts nothing.
class CudaStream : public Stream {
 public:
  explicit CudaStream(std::shared_ptr<StreamsOfDevice> of);
  ~CudaStream() override;  // when all that it was given is done
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  Event Record() override;
  void WaitFor(const Event& event) override;
  void Synchronize() override;
  Seconds stalled() override;
  // Called with each wait that is to be counted; what it returns, where it is anything, with the wait's two events when it is.
  using Counted = std::function<void(cudaEvent_t begin, cudaEvent_t end)>;
  void SetWaitObserver(std::function<Counted()> observer) { wait_observer_ = std::move(observer); }

  cudaStream_t raw() const { return stream_; }
  int gpu() const { return of_->gpu; }
  const LastLaunched& last() const { return of_->last; }
  const std::shared_ptr<StreamsOfDevice>& of() const { return of_; }

 private:
  const std::shared_ptr<StreamsOfDevice> of_;
  cudaStream_t stream_ = nullptr;
  struct Waiting {
    EventPool::Entry begin, end;
    Counted counted;
  };
  std::deque<Waiting> waits_;  // not yet counted
  std::function<Counted()> wait_observer_;
  Seconds stalled_;
};

}  // namespace twofold::cuda
