// Stream and Event on CUDA streams and events, for CudaDevice and for fabrics that work on GPU memory.
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/device/device.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/events.h"
#include "kernels/cuda/gpu_clock.h"

namespace twofold::cuda {

// The last operation launched by a rank, for errors: CUDA reports a kernel's failure at some later call. Any thread may
// use it.
class LastLaunched {
 public:
  LastLaunched(int rank, int gpu) : rank_(rank), gpu_(gpu) {}
  void Set(const ops::KernelKey& key) {
    std::lock_guard lock(mutex_);
    key_ = key;
  }
  // Unless `status` is success, throws a CudaError: "rank 3 on GPU 0: cudaErrorIllegalAddress: ... the last operation
  // launched was matmul_nt of bf16, 4096 x 768 x 768".
  void Check(cudaError_t status) const;
  // Calls call(), and adds the same text to any exception that it throws.
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
  ops::KernelKey key_ = {};  // no name: nothing launched yet
};

// State shared by the streams of a device and by anything else that works on its GPU for `rank`. Any thread may use it.
struct StreamsOfDevice {
  StreamsOfDevice(int rank, int gpu)
      : gpu(gpu),
        last(rank, gpu),
        events(std::make_shared<EventPool>(gpu, false)),
        timed(std::make_shared<EventPool>(gpu, true)),
        ends(std::make_shared<EventPool>(gpu, true, true)),
        clock(gpu, timed) {}
  const int gpu;
  LastLaunched last;
  const std::shared_ptr<EventPool> events, timed;
  const std::shared_ptr<EventPool> ends;  // of communications: more threads may wait for them than there are cores
  GpuClock clock;
};

// A point in a GPU stream, of a CudaStream or not: Event(std::make_shared<CudaEvent>(of, of->timed->Record(stream))).
// Any thread may wait for it.
class CudaEvent : public Event::State {
 public:
  CudaEvent(std::shared_ptr<StreamsOfDevice> of, EventPool::Entry event)
      : of_(std::move(of)), event_(std::move(event)) {}
  bool Done() override;
  void Wait() override;
  cudaEvent_t get() const { return event_.get(); }

 private:
  const std::shared_ptr<StreamsOfDevice> of_;
  const EventPool::Entry event_;
};

// A CUDA stream that waits for other streams only when told to. Used by one thread at a time.
//
// The stream itself waits for events of any GPU. For any other event (of a communication thread) the host waits: what
// it launches afterwards starts after the event, which is what WaitFor promises.
//
// stalled() is 0 unless waits are timed: nobody asks other streams than the compute stream. It is measured on the GPU
// by two timed events: one when the stream reaches the wait, one when it continues. So
// the work before the wait is not counted, although the host may have waited all along. stalled() counts only waits
// that have ended when it is called; a wait in progress is counted later. Waiting for an event that has already
// happened costs a query and counts nothing.
class CudaStream : public Stream {
 public:
  enum class Waits { kNotTimed, kTimed };
  explicit CudaStream(std::shared_ptr<StreamsOfDevice> of, Waits waits = Waits::kNotTimed);
  ~CudaStream() override;  // waits until all its work is done
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  Event Record() override;
  void WaitFor(const Event& event) override;
  void Synchronize() override;
  Seconds stalled() override;
  // The observer is called at each wait that will be counted. If it returns a function, that function is called with
  // the wait's two events when it is counted.
  using Counted = std::function<void(cudaEvent_t begin, cudaEvent_t end)>;
  void SetWaitObserver(std::function<Counted()> observer) { wait_observer_ = std::move(observer); }
  // `flush` enqueues what its caller has kept for this stream (graphs.h). It is called before anything that depends on
  // the stream's order. Null: nothing is kept.
  void SetFlush(std::function<void()> flush) { flush_ = std::move(flush); }

  cudaStream_t raw() const { return stream_; }
  int gpu() const { return of_->gpu; }
  const LastLaunched& last() const { return of_->last; }
  const std::shared_ptr<StreamsOfDevice>& of() const { return of_; }

 private:
  const std::shared_ptr<StreamsOfDevice> of_;
  const Waits waits_are_;
  cudaStream_t stream_ = nullptr;
  struct Waiting {
    EventPool::Entry begin, end;
    Counted counted;
  };
  std::deque<Waiting> waits_;  // not yet counted
  std::function<Counted()> wait_observer_;
  std::function<void()> flush_;
  Seconds stalled_;
};

}  // namespace twofold::cuda
