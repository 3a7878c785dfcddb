#include "kernels/cuda/emulated/multiprocessor.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "absl/debugging/symbolize.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "kernels/cuda/emulated/async_units.h"
#include "kernels/cuda/emulated/cuda_runtime.h"
#include "kernels/cuda/emulated/thread_sanitizer.h"

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace twofold::emulated {
namespace {

constinit thread_local Multiprocessor* here = nullptr;
constexpr size_t kAlignment = 128;
// Otherwise a fiber continues with another thread when one has ended, which is faster.
#ifdef __SANITIZE_THREAD__
constexpr bool kThreadsAreFibers = true;
#else
constexpr bool kThreadsAreFibers = false;
#endif

std::atomic<int> reports{0};

Multiprocessor& Here(const char* what) {
  if (here == nullptr) {
    std::fprintf(stderr, "emulated CUDA: %s was called by the host\n", what);
    std::abort();
  }
  return *here;
}

std::string Name(const void* function) {
  char name[512];
  return function != nullptr && absl::Symbolize(function, name, sizeof(name)) ? name : "?";
}

}  // namespace

int Reports() { return reports.load(std::memory_order_relaxed); }

void WarpTogether(unsigned mask, void* mine, Together what) {
  Here("an exchange of a warp").WarpTogether(mask, mine, what);
}
void BlockTogether(void* mine, Together what) { Here("__syncthreads").BlockTogether(mine, what); }
void* DynamicShared() { return Here("DynamicShared").shared(); }
int ThreadOfBlock() { return Here("threadIdx").thread(); }

Multiprocessor* Multiprocessor::Here() { return here; }

Multiprocessor::Multiprocessor(uint64_t seed) : random_(seed | 1) { here = this; }
Multiprocessor::~Multiprocessor() {
  const Unseen unseen;
  std::free(shared_);
  here = nullptr;
}

// xorshift64* (Vigna 2016, section 3).
uint64_t Multiprocessor::Random() {
  random_ ^= random_ >> 12;
  random_ ^= random_ << 25;
  random_ ^= random_ >> 27;
  return random_ * 0x2545f4914f6cdd1dULL;
}

void Multiprocessor::Permute(std::vector<int>& order) {
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[(Random() >> 32) % i]);
}

// ---- A launch ----

void Multiprocessor::Prepare(const Grid& grid) {
  const bool same = !threads_.empty() && std::memcmp(&grid.block, &grid_.block, sizeof(dim3)) == 0;
  grid_ = grid;
  blockDim = grid.block;
  gridDim = grid.grid;
  if (!same) {
    threads_.clear();
    for (unsigned z = 0; z < grid.block.z; ++z) {
      for (unsigned y = 0; y < grid.block.y; ++y) {
        for (unsigned x = 0; x < grid.block.x; ++x) threads_.push_back({.index = {x, y, z}});
      }
    }
    at_warp_.resize((threads_.size() + warpSize - 1) / warpSize);
    order_.resize(threads_.size());
    std::iota(order_.begin(), order_.end(), 0);
  }
  Permute(order_);
  if (grid.shared != shared_bytes_) {  // exactly this size, so that the address sanitizer detects accesses beyond it
    std::free(shared_);
    shared_ = nullptr;
    if (grid.shared != 0)
      TWOFOLD_CHECK(posix_memalign(&shared_, kAlignment, grid.shared) == 0, "dynamic shared memory");
    shared_bytes_ = grid.shared;
  }
}

bool Multiprocessor::Run(const Grid& grid) {
  const Unseen unseen;
  Prepare(grid);
  const uint64_t blocks = uint64_t{grid.grid.x} * grid.grid.y * grid.grid.z;
  // The i-th block is number (first + i * step) mod blocks. This covers all blocks if step and blocks are coprime.
  const uint64_t first = Random() % blocks;
  uint64_t step = Random() % blocks | 1;
  while (std::gcd(step, blocks) != 1) ++step;
  uint64_t number = first;
  for (uint64_t i = 0; i < blocks; ++i, number = (number + step) % blocks) {
    blockIdx = {static_cast<unsigned>(number % grid.grid.x), static_cast<unsigned>(number / grid.grid.x % grid.grid.y),
                static_cast<unsigned>(number / grid.grid.x / grid.grid.y)};
    if (!RunBlock()) return false;
  }
  return true;
}

bool Multiprocessor::RunBlock() {
  for (Thread& t : threads_) t.state = State::kUnstarted, t.fiber = nullptr;
  for (Meeting& m : at_warp_) m.arrived = 0;
  at_block_.arrived = 0;
  started_ = 0;
  done_ = 0;
  ready_.Reset(threads_.size()), behind_.Reset(threads_.size());
  start_first_ = (Random() >> 63) != 0;
  warp_behind_ = (Random() >> 63) != 0 ? static_cast<int>((Random() >> 33) % at_warp_.size()) : -1;
  fault_.clear();
  if (shared_bytes_ != 0) std::memset(shared_, 0xff, shared_bytes_);
  if (async_ != nullptr) async_->Begin();

  if (kThreadsAreFibers) {  // made here: a thread of the block that made it would be ordered before it
    while (fibers_.size() < threads_.size()) fibers_.push_back(std::make_unique<Fiber>(&Multiprocessor::Loop));
    FreeAll();
  }
  ComesBefore(this);
  running_ = FreeFiber();
  host_.SwitchTo(*running_);
  running_ = &host_;
  ComesAfter(&done_);
  if (fault_.empty() && done_ == static_cast<int>(threads_.size()) && async_ != nullptr) fault_ = async_->LeftOver();
  if (fault_.empty() && done_ == static_cast<int>(threads_.size())) return true;
  if (fault_.empty()) fault_ = Where();
  std::fprintf(stderr, "emulated CUDA: kernel %s, block (%u, %u, %u) of (%u, %u, %u), %zu threads: %s\n",
               Name(grid_.name).c_str(), blockIdx.x, blockIdx.y, blockIdx.z, gridDim.x, gridDim.y, gridDim.z,
               threads_.size(), fault_.c_str());
  reports.fetch_add(1, std::memory_order_relaxed);
  Abandon();
  return false;
}

// ---- Threads of a block ----

void Multiprocessor::Become(int thread) {
  thread_ = thread;
  threads_[static_cast<size_t>(thread)].state = State::kRunning;
  threadIdx = threads_[static_cast<size_t>(thread)].index;
}

// The loop of a fiber: it runs threads from start to end until there is none to start. Then another fiber continues,
// and this one is free for the next.
void Multiprocessor::Loop() {
  Multiprocessor& m = *here;
  while (true) {
    while (m.StartNext()) {
      ComesAfter(&m);
      EndUnseen();
      (*m.grid_.kernel)();
      BeginUnseen();
      ComesBefore(&m.done_);
      m.threads_[static_cast<size_t>(m.thread_)].state = State::kDone;
      ++m.done_;
      if (kThreadsAreFibers) break;
    }
    Fiber* self = m.running_;
    if (!kThreadsAreFibers) m.free_.push_back(self);
    m.running_ = m.Next();
    self->SwitchTo(*m.running_);
  }
}

bool Multiprocessor::StartNext() {
  if (started_ == order_.size() || (!ready_.empty() && !start_first_)) return false;
  Become(order_[started_++]);
  return true;
}

Fiber* Multiprocessor::Next() {
  if (async_ != nullptr) async_->MaybeCopy();
  const bool can_start = started_ < order_.size();
  if (can_start && (start_first_ || ready_.empty())) return FreeFiber();
  while (ready_.empty() && behind_.empty()) {
    if (done_ == threads() || async_ == nullptr || !async_->Copy()) return &host_;
  }
  const int thread = (ready_.empty() ? behind_ : ready_).Pop();
  Become(thread);
  return threads_[static_cast<size_t>(thread)].fiber;
}

Fiber* Multiprocessor::FreeFiber() {
  if (free_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(&Multiprocessor::Loop));
    free_.push_back(fibers_.back().get());
  }
  Fiber* fiber = free_.back();
  free_.pop_back();
  return fiber;
}

void Multiprocessor::Wait(State state) {
  Thread& t = threads_[static_cast<size_t>(thread_)];
  t.state = state, t.fiber = running_;
  Fiber* self = running_;
  running_ = Next();
  if (running_ != self) self->SwitchTo(*running_);
}

// The running thread has just arrived and continues. The others become ready, in an order that begins anywhere, and run
// when it waits or ends.
void Multiprocessor::Release(int first, int count, Together what) {
  void* given[1024];
  for (int i = 0; i < count; ++i) {
    Thread& t = threads_[static_cast<size_t>(first + i)];
    if (t.what != what) return Fail("its threads wait at different kinds of exchange at the same time");
    given[i] = t.given;
  }
  what(given, count);
  Continue(
      first, count, [](const Thread& t, const void* running) { return &t != running; },
      &threads_[static_cast<size_t>(thread_)]);
}

// Those of the threads that may become ready.
void Multiprocessor::Continue(int first, int count, bool (*may)(const Thread&, const void*), const void* of) {
  const int begin = static_cast<int>((Random() >> 33) % static_cast<uint64_t>(count));
  const bool up = (Random() >> 63) != 0;
  for (int i = 0; i < count; ++i) {
    const int thread = first + (begin + (up ? i : count - i)) % count;
    Thread& t = threads_[static_cast<size_t>(thread)];
    if (!may(t, of)) continue;
    t.state = State::kReady;
    (thread / warpSize == warp_behind_ ? behind_ : ready_).Push(thread);
  }
}

AsyncUnits& Multiprocessor::async() {
  if (async_ == nullptr) {
    async_ = std::make_unique<AsyncUnits>(*this);
    async_->Begin();
  }
  return *async_;
}

void Multiprocessor::WaitFor(const void* key, const Waiting& waiting) {
  Thread& t = threads_[static_cast<size_t>(thread_)];
  t.key = key, t.waiting = waiting;
  Wait(State::kWaits);
}

void Multiprocessor::Wake(const void* key) {
  Continue(
      0, threads(), [](const Thread& t, const void* k) { return t.state == State::kWaits && t.key == k; }, key);
}

void Multiprocessor::WarpTogether(unsigned mask, void* mine, Together what) {
  const Unseen unseen;
  const int first = thread_ / warpSize * warpSize;
  if (mask != ~0u)
    return Fail(absl::StrFormat("thread %d names lanes %#x; an exchange must name all 32 (0xffffffff)", thread_, mask));
  if (first + warpSize > static_cast<int>(threads_.size())) {
    return Fail(absl::StrFormat("thread %d is in a warp of %d threads; an exchange needs 32", thread_,
                                static_cast<int>(threads_.size()) - first));
  }
  Meeting& meeting = at_warp_[static_cast<size_t>(thread_ / warpSize)];
  Meet(meeting, State::kAtWarp, first, warpSize, what, mine);
}

void Multiprocessor::BlockTogether(void* mine, Together what) {
  const Unseen unseen;
  Meet(at_block_, State::kAtBlock, 0, static_cast<int>(threads_.size()), what, mine);
}

void Multiprocessor::Meet(Meeting& meeting, State state, int first, int count, Together what, void* mine) {
  // another thread may already be at the next barrier before this one continues
  char* const turn = &meeting.turns[meeting.turn % 2];
  ComesBefore(turn);
  Thread& t = threads_[static_cast<size_t>(thread_)];
  t.what = what, t.given = mine;
  if (++meeting.arrived < count) {
    Wait(state);
  } else {
    meeting.arrived = 0;
    ++meeting.turn;
    Release(first, count, what);
  }
  ComesAfter(turn);
}

// ---- What goes wrong ----

void Multiprocessor::Fail(std::string why) {
  fault_.swap(why);
  std::string().swap(why);  // no destructor of this fiber will run
  running_->SwitchTo(host_);
  TWOFOLD_CHECK(false, "a thread that failed does not continue");
}

std::string Multiprocessor::Where() const {
  std::string where;
  const auto add = [&](State state, const char* what) {
    int count = 0, first = -1;
    for (size_t i = 0; i < threads_.size(); ++i) {
      if (threads_[i].state == state && count++ == 0) first = static_cast<int>(i);
    }
    if (count > 0)
      absl::StrAppend(&where, where.empty() ? "" : ", ", count, " ", what, " (the first is thread ", first, ")");
  };
  add(State::kAtBlock, "wait at __syncthreads");
  add(State::kAtWarp, "wait at an exchange of their warp");
  std::vector<bool> told(threads_.size());
  for (size_t first = 0; first < threads_.size(); ++first) {
    if (threads_[first].state != State::kWaits || told[first]) continue;
    int count = 0;
    for (size_t i = first; i < threads_.size(); ++i) {
      if (threads_[i].state != State::kWaits || threads_[i].waiting != threads_[first].waiting) continue;
      told[i] = true;
      ++count;
    }
    absl::StrAppend(&where, where.empty() ? "" : ", ", count, " wait for ", async_->Describe(threads_[first].waiting),
                    " (the first is thread ", first, ")");
  }
  add(State::kDone, "have returned");
  return where + ": all threads must reach each __syncthreads, and all 32 lanes each exchange";
}

void Multiprocessor::Abandon() {
  for (const auto& fiber : fibers_) fiber->Restart();
  FreeAll();
}

void Multiprocessor::FreeAll() {
  free_.clear();
  for (const auto& fiber : fibers_) free_.push_back(fiber.get());
}

}  // namespace twofold::emulated
