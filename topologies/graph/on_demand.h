// Work that is done when its result is first needed, once.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

namespace twofold {

class OnDemand {
 public:
  // `work`: may be null, for nothing.
  explicit OnDemand(std::function<void()> work) : work_(std::move(work)) {}
  // Returns when the work is done. Any thread may call it.
  void Ensure() const {
    if (work_ != nullptr) std::call_once(once_, work_);
  }

 private:
  const std::function<void()> work_;
  mutable std::once_flag once_;
};

}  // namespace twofold
