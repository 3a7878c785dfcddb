// What happened when: spans of work on a rank's streams, and what its compute stream stood still for, kept while enabled.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"

namespace twofold {

struct Span {
  std::string stream;  // "compute", "communication world"
  std::string name;    // "matmul_nt", "all_reduce"
  Seconds start, end;
  Bytes bytes;
  Seconds waiting;     // of a communication: from its start until the last rank came, where that is known; else 0
  std::string label = {};  // what it is part of: Trace::SetLabel when it was launched or issued
  Seconds exposed = {};    // of a communication: how long the compute stream stood still for it. Trace::Take sets it
};

// The compute stream stood still until something on `stream` was done. Each moment counts as exposed for
// the span that was running there, as what was waited for comes after it. Where none was running, it counts for the next span on that
// stream, or for the last one if there is no next.
struct Stall {
  std::string stream;
  Seconds start, end;
};

// A span of a simulated compute stream that is no operation: the core time that communication took from it. On a real
// machine the operations themselves are longer by it.
inline constexpr std::string_view kCommunicationBesideCompute = "(communication beside compute)";

// Add may be called from any thread; the rest from the rank's own.
class Trace {
 public:
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  void SetEnabled(bool enabled) {
    if (!enabled && on_change_) on_change_(false);  // it may still have spans to add
    enabled_.store(enabled, std::memory_order_relaxed);
    if (enabled && on_change_) on_change_(true);
  }
  void Add(Span span) {
    if (!enabled()) return;
    std::lock_guard lock(mutex_);
    spans_.push_back(std::move(span));
  }
  void AddStall(Stall stall) {
    if (!enabled() || stall.end <= stall.start) return;
    std::lock_guard lock(mutex_);
    stalls_.push_back(std::move(stall));
  }
  // What is launched and issued from now on is part of: "F3", an action of a pipeline's schedule; "": nothing in particular.
  void SetLabel(std::string_view label) { label_ = Kept(label); }
  std::string_view label() const { return label_; }  // lives as long as the trace
  // The same text, where it lives as long as the trace.
  std::string_view Kept(std::string_view text) { return *texts_.emplace(text).first; }
  // Sorted by (stream, start). Moves the spans out.
  std::vector<Span> Take();
  // A fabric's hooks: told when tracing goes on, and before it goes off; and before the spans are taken.
  void OnChange(std::function<void(bool)> hook) { on_change_ = std::move(hook); }
  void OnTake(std::function<void()> hook) { on_take_ = std::move(hook); }

 private:
  std::atomic<bool> enabled_ = false;
  std::mutex mutex_;
  std::vector<Span> spans_;
  std::vector<Stall> stalls_;
  std::function<void(bool)> on_change_;
  std::function<void()> on_take_;
  std::set<std::string, std::less<>> texts_;  // all that were ever kept
  std::string_view label_;
};

}  // namespace twofold
