// A host thread that executes, in order, the work that other threads enqueue.
//
// Memory accesses are ordered only as far as CUDA promises: what a thread did before it enqueued work comes before that
// work, and what a stream did before a mark comes before what follows a wait for that mark. Locks would order more, and
// would hide a missing wait from the thread sanitizer, so there are none between a stream and other threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/cuda/emulated/cuda_runtime.h"

namespace twofold::emulated {

// A point in a stream. Kept for as long as the process runs.
class Mark {
 public:
  void Reach();
  void Wait() const;
  bool reached() const { return reached_.load(std::memory_order_acquire) != 0; }
  double time() const { return time_; }  // when it was reached, in seconds

 private:
  std::atomic<uint32_t> reached_{0};
  double time_ = 0;
};

}  // namespace twofold::emulated

// Never freed, so that a destroyed handle can be told from a valid one.
struct CUstream_st {
 public:
  using Work = std::function<void()>;

  CUstream_st(int device, bool blocking, uint64_t seed);

  // The work is skipped once CUDA has failed.
  void Enqueue(Work work);
  const twofold::emulated::Mark* Record();  // the end if the stream is closed: another thread may just have closed it
  void WaitFor(const twofold::emulated::Mark* mark);
  bool idle() const;
  void Close();  // enqueued work is still done

  const int device;
  const bool blocking;                 // it and the null stream wait for each other
  std::atomic<bool> capturing{false};  // set by whoever captures it (graphs.h)
  bool alive() const { return alive_.load(std::memory_order_relaxed); }

 private:
  struct Node {
    std::atomic<Node*> next{nullptr};
    Work work;
    twofold::emulated::Mark* then = nullptr;  // reached once the work is done
  };
  void Push(Work work, twofold::emulated::Mark* then = nullptr);
  const twofold::emulated::Mark* PushMark(Work work);
  Node* Pop();
  void Loop(uint64_t seed);

  std::atomic<bool> alive_{true};
  std::atomic<uint32_t> pushed_{0};  // incremented by other threads
  std::atomic<uint32_t> done_{0};    // incremented by its own
  std::atomic<Node*> last_;
  Node* first_;                                   // used by its own thread only; already done
  bool closing_ = false;                          // the same
  std::mutex marks_mutex_;                        // between the threads that enqueue
  const twofold::emulated::Mark* end_ = nullptr;  // set when it is closed
  std::vector<std::unique_ptr<twofold::emulated::Mark[]>> marks_;
  size_t marks_used_ = 0;  // in the last of marks_
};

namespace twofold::emulated {

// Whether this thread is a stream's thread: its work must not call CUDA, and it can access GPU memory.
bool OnStream();

// The sticky error; cudaSuccess if nothing has failed.
cudaError_t Failed();
void SetFailed(cudaError_t error);  // has no effect if there is an error already

}  // namespace twofold::emulated
