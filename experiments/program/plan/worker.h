// What a process of a plan does: screens a part of the space, bounds a layout, or simulates one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "experiments/program/plan/bound.h"
#include "experiments/program/plan/fewer_micro_batches.h"
#include "experiments/program/plan/space.h"

namespace twofold::plan {

// A legal layout and what is known of it without simulating.
struct Screened {
  Layout layout;
  double seconds = 0;  // at least
  int64_t bytes = 0;   // at least, of the fullest rank
  std::string what;    // most of them
};

// What was known of a layout before it was simulated, for comparison with what the simulation said.
struct Foretold {
  double quick = 0, path = 0, tight = 0;  // seconds: Bounds::QuickOf without and with the path, TightOf
  int64_t bytes = 0;                      // Bounds::QuickOf
  bool too_large = false;                 // TightOf says that it runs out of memory
};

// What a simulation said, or that none is needed because it runs out of memory.
struct Simulated {
  Layout layout;
  bool fits = false;
  bool failed = false;  // the simulation did, for another reason than memory: nothing is known of the layout
  std::string message;  // why it does not fit, or failed
  double seconds = 0, low = 0, high = 0, tokens_per_second = 0, mfu = 0;
  double bubble = 0, exposed = 0;  // share of the step; seconds of communication
  int64_t bytes = 0;               // reserved on the fullest rank; under another framework, what its device must have
  bool extended = false;           // from steps of fewer micro-batches; off by at most kExtensionError
  double folding_adds = 0;         // by how much ranks are late at most (report.proto), as a share of the step time
  bool for_gap = false;            // extended, or folded although the spec does not allow it: good enough for a gap
  // The share by which the step time may be off, if ranks that are late do not change who shares links with whom.
  double Off() const { return (extended ? kExtensionError : 0) + folding_adds; }
  double core_seconds = 0;                          // that the simulation took
  std::optional<Foretold> foretold = std::nullopt;  // of an exhaustive plan
};
std::string ToJsonLine(const Simulated& simulated);
absl::StatusOr<Simulated> SimulatedFrom(const std::string& json_line);

// Simulates a training whose steps have so many micro-batches: PredictSteps.
using Simulate = absl::StatusOr<std::vector<report::Report>> (*)(spec::Spec spec, const std::string& file,
                                                                 const std::vector<int64_t>& micro_batches);

// The spec by which a layout is simulated: two steps, of which the second counts, without traces and files. Of a spec
// whose first steps differ (compression, one_bit_adam), all of its steps.
spec::Spec SimulatedSpecOf(const Question& question, const Layout& layout);

class Worker {
 public:
  // All arguments outlive it.
  Worker(const Question& question, Bounds& bounds, Simulate simulate)
      : question_(question), bounds_(bounds), simulate_(simulate) {}

  // ---- Tasks and answers as text, for other processes ----
  static std::string ScreenTask(const Slice& slice);
  static std::string BoundTask(const Layout& layout, double enough);  // stops where a bound of `enough` is reached
  static std::string SimulateTask(const Layout& layout);
  // The same, but many micro-batches are extended from fewer (fewer_micro_batches.h), and ranks of a class that end
  // communications at different times are folded, if that adds at most kExtensionError
  // (fabric.simulated.folding_error).
  static std::string ExtendTask(const Layout& layout);
  static std::string CheckTask(const Layout& layout);  // simulates, and says what the bounds are: Simulated::foretold
  std::string Do(const std::string& task);

  struct ScreenAnswer {
    Space space;
    std::vector<Screened> screened;
    double core_seconds = 0;  // that it took
  };
  static ScreenAnswer ScreenAnswerFrom(const std::string& bytes);
  struct BoundAnswer {
    double seconds = 0;
    bool tight = false;       // no better bound is known
    std::string message;      // not empty: it runs out of memory
    double core_seconds = 0;  // that it took
  };
  static BoundAnswer BoundAnswerFrom(const std::string& bytes);

 private:
  std::string Screen(const Slice& slice);
  BoundAnswer Bound(const Layout& layout, double enough);
  Simulated Run(const Layout& layout);
  Simulated RunWhole(const Layout& layout, const spec::Spec& spec);
  Simulated RunFewer(const Layout& layout);
  std::optional<Simulated> RunExtended(const Layout& layout, const spec::Spec& spec, const FewerMicroBatches& of);
  std::vector<Simulated> SimulatedBy(const Layout& layout, const spec::Spec& spec,
                                     const std::vector<int64_t>& micro_batches);
  Foretold Foretell(const Layout& layout);

  const Question& question_;
  Bounds& bounds_;
  const Simulate simulate_;
};

}  // namespace twofold::plan
