#include "core/run/trace.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace twofold {
namespace {

struct ByStream {
  bool operator()(const Span& a, const std::string& b) const { return a.stream < b; }
  bool operator()(const std::string& a, const Span& b) const { return a < b.stream; }
};

// `spans` must be sorted.
void Expose(std::vector<Span>& spans, const Stall& stall) {
  const auto of_stream = std::equal_range(spans.begin(), spans.end(), stall.stream, ByStream());
  const auto begun = std::lower_bound(of_stream.first, of_stream.second, stall.end,
                                      [](const Span& s, Seconds t) { return s.start < t; });
  if (of_stream.first == of_stream.second) return;
  Seconds left = stall.end - stall.start;
  // Backwards: the awaited span, then the ones before it
  for (auto s = begun; s != of_stream.first && left > Seconds(0);) {
    --s;
    const Seconds beside = std::min(left, std::min(s->end, stall.end) - std::max(s->start, stall.start));
    if (beside <= Seconds(0)) break;
    s->exposed += beside, left -= beside;
  }
  // If no span was running, the next one had been issued but had not begun.
  const bool over = begun == of_stream.first || std::prev(begun)->end <= stall.start;
  (over && begun != of_stream.second ? *begun : *std::prev(begun)).exposed += left;
}

}  // namespace

std::vector<Span> Trace::Take() {
  if (on_take_) on_take_();
  std::vector<Span> spans;
  std::vector<Stall> stalls;
  {
    std::lock_guard lock(mutex_);
    spans.swap(spans_), stalls.swap(stalls_);
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.stream, a.start) < std::tie(b.stream, b.start);
  });
  for (const Stall& stall : stalls) Expose(spans, stall);
  return spans;
}

}  // namespace twofold
