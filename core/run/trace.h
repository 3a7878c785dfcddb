// A timeline: spans of work on a rank's streams, and stalls of its compute stream. Recorded while enabled.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/units.h"
#include "core/device/estimate.h"
#include "core/run/execution_graph.h"

namespace twofold {

struct Span {
  std::string stream;  // "compute", "communication world"
  std::string name;    // "matmul_nt", "all_reduce"
  Seconds start, end;
  Bytes bytes;
  Seconds waiting;         // of a communication: from its start until the last rank arrived, if known; else 0
  std::string label = {};  // set by Trace::SetLabel when the work was launched or issued
  Seconds exposed = {};    // of a communication: how long the compute stream stalled for it. Set by Trace::Take
  std::string shape = {};  // of a kernel: ops::ShapeText; empty: unknown
  double flops = 0;        // of a kernel
};

// The compute stream stalled until some work on `stream` was done. Each moment of the stall counts as exposed time of
// the span that was running on `stream`, since the awaited work comes after it. If no span was running, it counts for
// the next span on that stream, or for the last one if there is no next.
struct Stall {
  std::string stream;
  Seconds start, end;
};

// A span of a simulated compute stream that is not an operation: the core time that communication took from it. On a
// real machine the operations themselves take longer by this time.
inline constexpr std::string_view kCommunicationBesideCompute = "(communication beside compute)";

// How the names of a codec's kernels end.
inline constexpr std::string_view kCodecEnding = " (codec)";

// Add may be called from any thread. All other functions are for the rank's own thread.
class Trace {
 public:
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  void SetEnabled(bool enabled) {
    if (!enabled && on_change_) on_change_(false);  // the hook may still have spans to add
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
  // Labels everything launched or issued from now on: "F3" is an action of a pipeline's schedule. "": no label.
  void SetLabel(std::string_view label) { label_ = Kept(label); }
  std::string_view label() const { return label_; }  // valid as long as the trace
  // Whether the kernels that are launched from now on are a codec's. Their spans are named "matmul_nt (codec)".
  void SetCodec(bool codec) { codec_ = codec; }
  // The name of the span of a kernel that is launched now; valid as long as the trace and the kernel's name.
  std::string_view NameOf(std::string_view kernel) {
    return codec_ ? Kept(std::string(kernel).append(kCodecEnding)) : kernel;
  }
  // A copy of the text that is valid as long as the trace.
  std::string_view Kept(std::string_view text) { return *texts_.emplace(text).first; }
  // Null: none is kept. It must outlive the trace's last use.
  void SetGraph(ExecutionGraph* graph) { graph_ = graph; }
  ExecutionGraph* graph() const { return graph_; }
  // Sorted by (stream, start). Moves the spans out.
  std::vector<Span> Take();
  // Of calls of a kernel with one shape whose times are expected: sums.
  struct Expected {
    int64_t calls = 0;
    double seconds = 0, low = 0, high = 0, flops = 0;
    int64_t bytes = 0;                    // read and written
    Source source = Source::kCalibrated;  // the least certain one
  };
  // A kernel is launched whose time is expected. `name` and `shape` must be valid as long as the trace.
  void Expect(std::string_view name, std::string_view shape, const Expected& call) {
    if (!enabled()) return;
    Expected& all = expected_[{name, shape}];
    all.calls += call.calls, all.seconds += call.seconds, all.low += call.low, all.high += call.high;
    all.flops += call.flops, all.bytes += call.bytes;
    all.source = std::max(all.source, call.source);
  }
  // By name and shape. Empty: times are measured.
  using AllExpected = absl::flat_hash_map<std::pair<std::string_view, std::string_view>, Expected>;
  const AllExpected& expected() const { return expected_; }
  // Hooks for a fabric. OnChange: called after tracing is turned on and before it is turned off. OnTake: called before
  // the spans are taken.
  void OnChange(std::function<void(bool)> hook) { on_change_ = std::move(hook); }
  void OnTake(std::function<void()> hook) { on_take_ = std::move(hook); }

 private:
  std::atomic<bool> enabled_ = false;
  std::mutex mutex_;
  std::vector<Span> spans_;
  std::vector<Stall> stalls_;
  std::function<void(bool)> on_change_;
  std::function<void()> on_take_;
  std::set<std::string, std::less<>> texts_;  // all texts ever passed to Kept
  AllExpected expected_;
  std::string_view label_;
  bool codec_ = false;
  ExecutionGraph* graph_ = nullptr;
};

}  // namespace twofold
