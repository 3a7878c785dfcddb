// The memory ledger: what a rank's allocator holds, by category, now and at its highest.
//
// One ledger belongs to one allocator and is touched by the rank's own thread only. "Live" bytes are those of blocks
// handed out (requests rounded up to 512 bytes, and a rest of up to 1 MiB that a large block keeps); "requested" are those
// asked for, of the same blocks; "reserved" are those taken from the memory source, free blocks included.
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
  std::array<Bytes, kCategories> peak_by_category;   // each category's own highest
  std::array<Bytes, kCategories> at_peak;            // each category's live bytes when `peak` was reached
};

class MemoryLedger {
 public:
  const MemoryStats& stats() const { return stats_; }

  // Called after every change while set: the memory time line. Null stops it.
  void SetObserver(std::function<void(const MemoryStats&)> observer) { observer_ = std::move(observer); }

  // A block of `size` bytes, of which somebody asked for `requested`.
  void OnAllocate(Bytes size, Bytes requested, Category category);
  void OnFree(Bytes size, Bytes requested, Category category);
  void OnReserve(Bytes size);
  void OnRelease(Bytes size);

 private:
  void Notify() { if (observer_) observer_(stats_); }
  MemoryStats stats_;
  std::function<void(const MemoryStats&)> observer_;
};

}  // namespace twofold
