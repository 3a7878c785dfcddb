#include "kernels/cpu/thread_pool.h"

#include <algorithm>

#include "core/base/check.h"

namespace twofold::cpu {
namespace {

// Spins until `ready`, for at most 20 to 50 microseconds.
template <class Ready>
void SpinUntil(Ready ready) {
  for (int i = 0; i < 1000 && !ready(); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  TWOFOLD_CHECK_GE(threads, 1);
  TWOFOLD_CHECK_LE(threads, kMaxThreads);
  for (int part = 1; part < threads; ++part) workers_.emplace_back([this, part] { Work(part); });
}

ThreadPool::~ThreadPool() {
  job_ = nullptr;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Job::Do(int part) const {
  const int64_t begin = part * length, end = std::min(n, begin + length);
  if (begin < end) run(part, begin, end);
}

void ThreadPool::RunParts(int64_t n, int64_t grain, Part run) {
  const int64_t grains = (n + grain - 1) / grain;
  const Job job{run, n, (grains + threads_ - 1) / threads_ * grain};
  job_ = &job;
  busy_.store(threads_ - 1, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  job.Do(0);
  SpinUntil([this] { return busy_.load(std::memory_order_acquire) == 0; });
  for (int left = busy_.load(std::memory_order_acquire); left > 0; left = busy_.load(std::memory_order_acquire)) {
    busy_.wait(left, std::memory_order_acquire);
  }
}

void ThreadPool::Work(int part) {
  for (uint32_t seen = 0;;) {
    SpinUntil([this, seen] { return generation_.load(std::memory_order_acquire) != seen; });
    generation_.wait(seen, std::memory_order_acquire);
    ++seen;  // RunParts waits for every worker, so none can miss a generation
    if (job_ == nullptr) return;
    job_->Do(part);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace twofold::cpu
