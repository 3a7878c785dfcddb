#include "backends/host/last_step.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace twofold::host {

bool LastStep::MayBegin(int64_t step, const std::function<void()>& check) {
  constexpr std::chrono::milliseconds kLook(20);
  std::unique_lock lock(mutex_);
  if (!std::exchange(used_, true)) InterruptScope::TermAsks(true);
  if (!held_ && !last_ && InterruptScope::AskedToEnd()) {
    held_ = true;
    if (ask_)
      ask_();
    else
      last_ = begun_;
  }
  while (held_ && !last_) {
    if (decided_.wait_for(lock, kLook, [this] { return last_.has_value(); })) break;
    lock.unlock();
    check();
    lock.lock();
  }
  if (last_) return step <= *last_;
  begun_ = std::max(begun_, step);
  return true;
}

int64_t LastStep::Hold() {
  std::lock_guard lock(mutex_);
  held_ = true;
  return begun_;
}

void LastStep::Decide(int64_t last) {
  std::lock_guard lock(mutex_);
  last_ = last;
  decided_.notify_all();
}

}  // namespace twofold::host
