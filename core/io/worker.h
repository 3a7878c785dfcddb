// A thread that does what it is handed, in order. One rank's; handed things and waited for on the rank's thread.
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
  // `limit`: bytes that may wait to be done before Post waits, too; 0: any number. `gently`: leaves the processor to others.
  Worker(int64_t limit, bool gently);
  ~Worker();  // what has not begun is not done
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // After the first that fails nothing more is done. `bytes`: what `task` holds.
  void Post(int64_t bytes, std::function<absl::Status()> task);
  bool idle();           // everything was done, or something failed
  absl::Status Wait();   // until then; what failed
  absl::Status status();  // what failed so far
  // For a task that waits for others: sleeps for a while; false once the worker is being given up.
  bool Sleep();
  bool given_up();  // for a long task: whether it should stop

 private:
  void Run(bool gently);

  const int64_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<int64_t, std::function<absl::Status()>>> tasks_;
  int64_t waiting_ = 0;  // bytes of them, the one being done included
  bool busy_ = false, given_up_ = false;
  absl::Status status_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace twofold::checkpoint
