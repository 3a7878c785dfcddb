// The memory ledger: what a rank's allocator holds now and at its peak, by category.
//
// Each allocator has one ledger, used only from the rank's own thread. "Live" bytes are the sizes of allocated blocks:
// requests rounded up to 512 bytes, plus a remainder of up to 1 MiB that a large block keeps. "Requested" bytes are the
// sizes that callers asked for, of the same blocks. "Reserved" bytes are those taken from the memory source, free
// blocks included.
#pragma once

#include <array>
#include <functional>
#include <string_view>

#include "core/base/units.h"

namespace twofold {

enum class Category { kParameters, kGradients, kOptimizerState, kActivations, kCommunication, kOther };
inline constexpr int kCategories = 6;
std::string_view CategoryName(Category category);  // "parameters", "gradients", ...

struct MemoryStats {
  Bytes live, peak, reserved, peak_reserved;
  std::array<Bytes, kCategories> live_by_category;
  std::array<Bytes, kCategories> requested_by_category;  // of the live blocks
  std::array<Bytes, kCategories> peak_by_category;       // each category's own peak
  std::array<Bytes, kCategories> at_peak;                // each category's live bytes when `peak` was reached
};

class MemoryLedger {
 public:
  const MemoryStats& stats() const { return stats_; }

  // Sets a function that is called after every change. It records the memory timeline. Null stops it.
  void SetObserver(std::function<void(const MemoryStats&)> observer) { observer_ = std::move(observer); }

  // `size`: the block's bytes. `requested`: the bytes that the caller asked for.
  void OnAllocate(Bytes size, Bytes requested, Category category);
  void OnFree(Bytes size, Bytes requested, Category category);
  void OnReserve(Bytes size);
  void OnRelease(Bytes size);

 private:
  void Notify() {
    if (observer_) observer_(stats_);
  }
  MemoryStats stats_;
  std::function<void(const MemoryStats&)> observer_;
};

}  // namespace twofold
