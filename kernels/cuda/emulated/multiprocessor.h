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

class AsyncUnits;

// What a thread waits for that other threads, or copies, bring about.
struct Waiting {
  enum class For : uint8_t { kPhase, kNamedBarrier, kProducts, kRegisters } what;
  uint32_t which;  // address of the barrier, its number, or the warp group
  int wanted;      // parity, threads, number of products, or registers
  bool operator==(const Waiting&) const = default;
};

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
  size_t shared_bytes() const { return shared_bytes_; }
  int thread() const { return thread_; }
  int threads() const { return static_cast<int>(threads_.size()); }

  // For AsyncUnits. The running thread waits until Wake is called with this address.
  void WaitFor(const void* key, const Waiting& waiting);
  void Wake(const void* key);
  [[noreturn]] void Fail(std::string why);  // the running thread never continues
  uint64_t Random();
  AsyncUnits& async();

  static Multiprocessor* Here();  // of the calling host thread; null if it is not a stream's thread

 private:
  enum class State : uint8_t { kUnstarted, kRunning, kReady, kAtWarp, kAtBlock, kWaits, kDone };
  struct Thread {
    uint3 index;
    State state;
    Fiber* fiber;  // set once it has waited
    void* given;   // address passed to the others
    Together what;
    const void* key;  // of WaitFor
    Waiting waiting;
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
  void Continue(int first, int count, bool (*may)(const Thread&, const void*), const void* of);
  bool StartNext();  // on a free fiber: runs the next thread to its end; false if there is nothing left to do here
  Fiber* Next();     // the fiber to run when the running thread waits; the host's if no thread can run
  Fiber* FreeFiber();
  void Abandon();
  void FreeAll();
  std::string Where() const;  // where threads are, when they wait forever
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
  std::unique_ptr<AsyncUnits> async_;  // made when a kernel first uses them
  std::vector<int> order_;             // the order in which threads start
  size_t started_ = 0;                 // index into order_
  bool start_first_ = false;           // start new threads before continuing those that no longer wait
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
