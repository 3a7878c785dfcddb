// Kills this process at a moment, as a fault would: wherever it is then.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace twofold::processes {

class LostAt {
 public:
  LostAt() = default;
  ~LostAt();  // there is no loss any more
  LostAt(const LostAt&) = delete;
  LostAt& operator=(const LostAt&) = delete;

  // So many seconds from now; at once if that is not above zero. Call it once at most.
  void In(double seconds);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool spared_ = false;
  std::thread thread_;  // declared last: it uses the other members
};

}  // namespace twofold::processes
