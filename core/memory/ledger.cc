#include "core/memory/ledger.h"

#include <algorithm>

namespace twofold {

std::string_view CategoryName(Category category) {
  constexpr std::array<std::string_view, kCategories> kNames = {"parameters",  "gradients",     "optimizer_state",
                                                                "activations", "communication", "other"};
  return kNames[static_cast<size_t>(category)];
}

void MemoryLedger::OnAllocate(Bytes size, Bytes requested, Category category) {
  const auto c = static_cast<size_t>(category);
  stats_.live += size;
  stats_.live_by_category[c] += size;
  stats_.requested_by_category[c] += requested;
  stats_.peak_by_category[c] = std::max(stats_.peak_by_category[c], stats_.live_by_category[c]);
  if (stats_.live > stats_.peak) {
    stats_.peak = stats_.live;
    stats_.at_peak = stats_.live_by_category;
  }
  Notify();
}

void MemoryLedger::OnFree(Bytes size, Bytes requested, Category category) {
  const auto c = static_cast<size_t>(category);
  stats_.live -= size;
  stats_.live_by_category[c] -= size;
  stats_.requested_by_category[c] -= requested;
  Notify();
}

void MemoryLedger::OnReserve(Bytes size) {
  stats_.reserved += size;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  Notify();
}

void MemoryLedger::OnRelease(Bytes size) {
  stats_.reserved -= size;
  Notify();
}

}  // namespace twofold
