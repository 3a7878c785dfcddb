#include "backends/processes/lost_at.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>

namespace twofold::processes {

LostAt::~LostAt() {
  {
    const std::lock_guard lock(mutex_);
    spared_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LostAt::In(double seconds) {
  thread_ = std::thread([this, until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds)] {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, until, [this] { return spared_; })) kill(getpid(), SIGKILL);
  });
}

}  // namespace twofold::processes
