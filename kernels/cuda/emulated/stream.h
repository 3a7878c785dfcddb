// A thread of the host that does, in order, what other threads give it.
//
// What orders memory accesses of the two is what CUDA promises, and no more: what a thread did before it enqueued something comes
// before it, and what a stream did before a mark comes before what follows a wait for that mark. Locks would order more, and
// hide from the thread sanitizer that a wait is missing; so there are none between a stream and others.
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

// A point of a stream. Kept for as long as the process runs.
class Mark {
 public:
  void Reach();
  void Wait() const;
  bool reached() const { return reached_.load(std::memory_order_acquire) != 0; }
  double time() const { return time_; }  // once it was reached, in seconds

 private:
  std::atomic<uint32_t> reached_{0};
  double time_ = 0;
};

}  // namespace twofold::emulated

// Never freed: a handle that was destroyed is told from one that is good.
struct CUstream_st {
 public:
  using Work = std::function<void()>;

  CUstream_st(int device, bool blocking, uint64_t seed);

  // Work that is left out once CUDA has failed.
  void Enqueue(Work work);
  const twofold::emulated::Mark* Record();  // of a closed one its end: another thread may have closed it just now
  void WaitFor(const twofold::emulated::Mark* mark);
  bool idle() const;
  void Close();  // what was enqueued is done

  const int device;
  const bool blocking;  // the null stream waits for it
  bool alive() const { return alive_.load(std::memory_order_relaxed); }

 private:
  struct Node {
    std::atomic<Node*> next{nullptr};
    Work work;
    twofold::emulated::Mark* then = nullptr;  // reached once it is done
  };
  void Push(Work work, twofold::emulated::Mark* then = nullptr);
  const twofold::emulated::Mark* PushMark(Work work);
  Node* Pop();
  void Loop(uint64_t seed);

  std::atomic<bool> alive_{true};
  std::atomic<uint32_t> pushed_{0};   // by other threads
  std::atomic<uint32_t> done_{0};     // by its own
  std::atomic<Node*> last_;
  Node* first_;                       // its own thread's; done already
  bool closing_ = false;              // likewise
  std::mutex marks_mutex_;            // among those who enqueue
  const twofold::emulated::Mark* end_ = nullptr;  // once it is closed
  std::vector<std::unique_ptr<twofold::emulated::Mark[]>> marks_;
  size_t marks_used_ = 0;             // of the last
};

namespace twofold::emulated {

// Whether this thread is a stream's: what it does may not call CUDA, and GPUs' memory is in its reach.
bool OnStream();

// The error that stays; cudaSuccess where nothing has failed.
cudaError_t Failed();
void SetFailed(cudaError_t error);  // unless there is one already

}  // namespace twofold::emulated
