// For tests whose ranks are threads.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace twofold::gloo {

// An exchange among threads.
class Meeting {
 public:
  explicit Meeting(int size) : given_(static_cast<size_t>(size)) {}
  std::vector<std::string> Exchange(int rank, std::string bytes) {
    {
      const std::lock_guard lock(mutex_);
      given_[static_cast<size_t>(rank)] = std::move(bytes);
      ++have_given_;
      changed_.notify_all();
    }
    return All();
  }
  std::vector<std::string> All() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return have_given_ == given_.size(); });
    return given_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> given_;
  size_t have_given_ = 0;
};

}  // namespace twofold::gloo
