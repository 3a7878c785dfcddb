// Runs the blocks of a launch, one after another, on the calling host thread, which is a stream's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/emulated/fiber.h"
#include "kernels/cuda/emulated/threads.h"

namespace twofold::emulated {

struct Grid {
  dim3 grid, block;
  size_t shared = 0;           // bytes
  const void* name = nullptr;  // address of the kernel
  const std::function<void()>* kernel = nullptr;
};

class Multiprocessor {
 public:
  explicit Multiprocessor(uint64_t seed);
  ~Multiprocessor();

  // Returns false, after a report on stderr, if threads of a block waited for threads that never arrived. The remaining
  // blocks are skipped.
  bool Run(const Grid& grid);

  // Called by the threads of a block.
  void WarpTogether(unsigned mask, void* mine, Together what);
  void BlockTogether(void* mine, Together what);
  void* shared() const { return shared_; }
  int thread() const { return thread_; }

  static Multiprocessor* Here();  // of the calling host thread; null if it is not a stream's thread

 private:
  enum class State : uint8_t { kUnstarted, kRunning, kReady, kAtWarp, kAtBlock, kDone };
  struct Thread {
    uint3 index;
    State state;
    Fiber* fiber;  // set once it has waited
    void* given;   // address passed to the others
    Together what;
  };
  // A ring of threads that no longer wait and can continue, in order.
  class Line {
   public:
    void Reset(size_t room) { threads_.resize(room), first_ = count_ = 0; }
    bool empty() const { return count_ == 0; }
    void Push(int thread) { threads_[(first_ + count_++) % threads_.size()] = thread; }
    int Pop() {
      const int thread = threads_[first_];
      first_ = (first_ + 1) % threads_.size(), --count_;
      return thread;
    }

   private:
    std::vector<int> threads_;
    size_t first_ = 0, count_ = 0;
  };
  // The barrier of a warp or of the block.
  struct Meeting {
    int arrived = 0;
    unsigned turn = 0;  // number of completed barriers
    char turns[2];      // their addresses represent this barrier and the previous or next one to the thread sanitizer
  };

  static void Loop();
  bool RunBlock();
  void Prepare(const Grid& grid);
  void Become(int thread);
  void Meet(Meeting& meeting, State state, int first, int count, Together what, void* mine);
  void Wait(State state);
  void Release(int first, int count, Together what);
  bool StartNext();  // on a free fiber: runs the next thread to its end; false if there is nothing left to do here
  Fiber* Next();     // the fiber to run when the running thread waits; the host's if no thread can run
  Fiber* FreeFiber();
  void Fail(std::string why);
  void Abandon();
  void FreeAll();
  std::string Where() const;  // where threads are, when they wait forever
  uint64_t Random();
  void Permute(std::vector<int>& order);

  uint64_t random_;
  Fiber host_;
  std::vector<std::unique_ptr<Fiber>> fibers_;  // all
  std::vector<Fiber*> free_;                    // those that run no thread
  Fiber* running_ = &host_;

  Grid grid_;
  std::vector<Thread> threads_;   // of the block
  std::vector<Meeting> at_warp_;  // of each warp
  Meeting at_block_;
  std::vector<int> order_;    // the order in which threads start
  size_t started_ = 0;        // index into order_
  bool start_first_ = false;  // start new threads before continuing those that no longer wait
  // In every other block, one warp continues only if no other can: it stays as far behind as barriers allow.
  Line ready_, behind_;
  int warp_behind_ = -1;
  int thread_ = 0;  // the running thread
  int done_ = 0;
  std::string fault_;
  void* shared_ = nullptr;
  size_t shared_bytes_ = 0;
};

}  // namespace twofold::emulated
