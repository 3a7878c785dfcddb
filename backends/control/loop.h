// A thread that runs what others hand to it, in that order, and looks at its clock every few milliseconds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace twofold::control {

class Loop {
 public:
  Loop(std::chrono::milliseconds every, std::function<void()> tick)
      : every_(every), tick_(std::move(tick)), thread_([this] { Run(); }) {}
  ~Loop() { Stop(); }

  void Post(std::function<void()> task) {  // from any thread
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_one();
  }
  void Do(const std::function<void()>& task) {  // and waits for it
    std::promise<void> done;
    Post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Runs nothing more. From another thread.
  void Stop() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Run() {
    std::unique_lock lock(mutex_);
    for (Clock::time_point next = Clock::now() + every_; !ending_;) {
      if (tasks_.empty() && Clock::now() < next) {
        changed_.wait_until(lock, next);
        continue;
      }
      std::deque<std::function<void()>> tasks = std::exchange(tasks_, {});
      lock.unlock();
      for (const auto& task : tasks) task();
      if (Clock::now() >= next) {
        tick_();
        next = Clock::now() + every_;
      }
      lock.lock();
    }
  }

  const std::chrono::milliseconds every_;
  const std::function<void()> tick_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace twofold::control
