#include "core/run/trace.h"

#include <algorithm>
#include <tuple>

namespace twofold {

std::vector<Span> Trace::Take() {
  if (on_take_) on_take_();
  std::vector<Span> spans;
  {
    std::lock_guard lock(mutex_);
    spans.swap(spans_);
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return std::tie(a.stream, a.start) < std::tie(b.stream, b.start); });
  return spans;
}

}  // namespace twofold
