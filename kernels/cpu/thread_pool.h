// The threads that one device computes with.
//
// The calling thread takes the first part and threads - 1 workers take the others. Parts depend only on n, grain and
// the number of threads, so a kernel computes the same in every run. With one thread no worker is created. A waiting
// thread spins for some microseconds before it sleeps, because the operations of a step follow one another faster than
// a sleeping thread wakes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace twofold::cpu {

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 128;
  explicit ThreadPool(int threads);  // 1 to kMaxThreads
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  int threads() const { return threads_; }

  // Covers [0, n) by calls f(begin, end), at most one per thread; the length of each but the last is a multiple of
  // `grain`. Returns when all are done. f must not throw. Only one caller at a time, and not from inside f.
  template <class F>
  void ParallelFor(int64_t n, int64_t grain, F&& f) {
    if (n <= 0) return;
    if (threads_ == 1 || n <= grain) return f(int64_t{0}, n);
    RunParts(n, grain, [&f](int, int64_t begin, int64_t end) { f(begin, end); });
  }

  // The same with a call f(i) for each i.
  template <class F>
  void ParallelForEach(int64_t n, int64_t grain, F&& f) {
    ParallelFor(n, grain, [&f](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i);
    });
  }

  // The sum of f(begin, end) over the parts, in order.
  template <class F>
  double ParallelSum(int64_t n, int64_t grain, F&& f) {
    if (n <= 0) return 0;
    if (threads_ == 1 || n <= grain) return f(int64_t{0}, n);
    std::array<double, kMaxThreads> sums{};
    RunParts(n, grain, [&](int part, int64_t begin, int64_t end) { sums[static_cast<size_t>(part)] = f(begin, end); });
    double total = 0;
    for (int part = 0; part < threads_; ++part) total += sums[static_cast<size_t>(part)];
    return total;
  }

 private:
  using Part = absl::FunctionRef<void(int part, int64_t begin, int64_t end)>;
  struct Job {
    Part run;
    int64_t n, length;
    void Do(int part) const;
  };
  void RunParts(int64_t n, int64_t grain, Part run);
  void Work(int part);

  const int threads_;
  const Job* job_ = nullptr;  // null tells the workers to end; published by generation_
  std::atomic<uint32_t> generation_ = 0;
  std::atomic<int> busy_ = 0;
  std::vector<std::thread> workers_;
};

}  // namespace twofold::cpu
