// Runs the blocks of a launch, one after another, on the thread of the host that calls it: a stream's.
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
  size_t shared = 0;                     // bytes
  const void* name = nullptr;            // address of the kernel
  const std::function<void()>* kernel = nullptr;
};

class Multiprocessor {
 public:
  explicit Multiprocessor(uint64_t seed);
  ~Multiprocessor();

  // False, after a report on stderr, where a block's threads waited for ones that never came. The other blocks are left out.
  bool Run(const Grid& grid);

  // What threads of a block call.
  void WarpTogether(unsigned mask, Together what, void* mine);
  void BlockTogether(Together what, void* mine);
  void* shared() const { return shared_; }
  int thread() const { return thread_; }

  static Multiprocessor* Here();  // of this thread of the host, null where it is not a stream's

 private:
  enum class State : uint8_t { kUnstarted, kRunning, kReady, kAtWarp, kAtBlock, kDone };
  struct Thread {
    uint3 index;
    State state;
    Fiber* fiber;    // once it has waited
    void* given;     // to the others
    Together what;
  };
  // Threads that wait no longer and are to go on, in order: a ring.
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
  // Of a warp or the block.
  struct Meeting {
    int arrived = 0;
    unsigned turn = 0;  // how many there were
    char turns[2];      // whose addresses stand for this one and the one before, or after, to the thread sanitizer
  };

  static void Loop();
  bool RunBlock();
  void Prepare(const Grid& grid);
  void Become(int thread);
  void Meet(Meeting& meeting, State state, int first, int count, Together what, void* mine);
  void Wait(State state);
  void Release(int first, int count, Together what);
  bool StartNext();           // in a free fiber: the next thread runs to its end; false when there is nothing left to do here
  Fiber* Next();              // what runs when the running thread waits: its fiber; the host's when nothing can
  Fiber* FreeFiber();
  void Fail(std::string why);
  void Abandon();
  void FreeAll();
  std::string Where() const;  // threads are, when they wait for ever
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
  std::vector<int> order_;        // in which threads start
  size_t started_ = 0;            // of order_
  bool start_first_ = false;      // before those that wait no longer go on
  // In every other block, one warp goes on only when no other can, as far behind as barriers let it be.
  Line ready_, behind_;
  int warp_behind_ = -1;
  int thread_ = 0;                // that runs
  int done_ = 0;
  std::string fault_;
  void* shared_ = nullptr;
  size_t shared_bytes_ = 0;
};

}  // namespace twofold::emulated
