#include "core/io/worker.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <exception>

#include "core/base/status.h"

namespace twofold::checkpoint {

Worker::Worker(int64_t limit, bool gently) : limit_(limit), thread_([this, gently] { Run(gently); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::Post(int64_t bytes, std::function<absl::Status()> task) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return limit_ == 0 || waiting_ == 0 || waiting_ + bytes <= limit_ || !status_.ok(); });
  if (!status_.ok()) return;
  waiting_ += bytes;
  tasks_.emplace_back(bytes, std::move(task));
  changed_.notify_all();
}

bool Worker::idle() {
  const std::lock_guard lock(mutex_);
  return !status_.ok() || (tasks_.empty() && !busy_);
}

absl::Status Worker::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !status_.ok() || (tasks_.empty() && !busy_); });
  return status_;
}

absl::Status Worker::status() {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool Worker::Sleep() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(20), [this] { return given_up_; });
  return !given_up_;
}

bool Worker::given_up() {
  const std::lock_guard lock(mutex_);
  return given_up_;
}

void Worker::Run(bool gently) {
  if (gently) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10);  // on Linux, applies to this thread alone
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return given_up_ || !tasks_.empty(); });
    if (given_up_) return;
    auto [bytes, task] = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    absl::Status status;
    try {
      status = task();
    } catch (const std::exception& error) {
      status = Unavailable(error.what());
    }
    task = nullptr;  // releases what it holds before the next task starts
    lock.lock();
    busy_ = false;
    waiting_ -= bytes;
    if (!status.ok()) {
      status_ = std::move(status);
      tasks_.clear();
      waiting_ = 0;
    }
    changed_.notify_all();
    if (!status_.ok()) return;
  }
}

}  // namespace twofold::checkpoint
