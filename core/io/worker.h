// A thread that runs tasks in order. It belongs to one rank, whose thread posts the tasks and waits for them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/status.h"

namespace twofold::checkpoint {

class Worker {
 public:
  // `limit`: the bytes of pending tasks beyond which Post blocks; 0: no limit. `gently`: runs at low priority.
  Worker(int64_t limit, bool gently);
  ~Worker();  // discards tasks that have not begun
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // No further task runs after the first one that fails. `bytes`: the memory that `task` holds.
  void Post(int64_t bytes, std::function<absl::Status()> task);
  bool idle();            // all tasks are done, or one failed
  absl::Status Wait();    // until idle; returns the first failure
  absl::Status status();  // the first failure so far
  // For a task that polls: sleeps for a while. Returns false once the worker is being shut down.
  bool Sleep();
  bool given_up();  // for a long task: true if it should stop

 private:
  void Run(bool gently);

  const int64_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<int64_t, std::function<absl::Status()>>> tasks_;
  int64_t waiting_ = 0;  // bytes of pending tasks, including the running one
  bool busy_ = false, given_up_ = false;
  absl::Status status_;
  std::thread thread_;  // declared last: it uses the other members
};

}  // namespace twofold::checkpoint
