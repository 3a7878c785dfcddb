// Solutions of flows that met, kept for the next time that they meet with as much left.
//
// Two meetings are alike if the same classes take part and have equally much left, up to the rounding of times. Those
// that may be alike are found by the sum of what is left, so that a look-up costs a few comparisons, however many are
// kept. Those that were used longest ago are forgotten, so that the rest have about kMostKept changes of rates and
// loads together (64 MiB). One thread.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/sharing/flow_classes.h"
#include "sim/sharing/flow_solution.h"

namespace twofold::sim {

inline constexpr double kBytesRounding = 1e-12;  // share of a flow's bytes: a flow with less left has ended
inline constexpr double kTimesRounding = 1e-15;  // the relative error of times

class KnownSolutions {
 public:
  static constexpr size_t kMostKept = size_t{1} << 22;
  explicit KnownSolutions(size_t most_kept = kMostKept) : most_kept_(most_kept) {}

  // The solution of flows of these classes, with `left` bytes by class, from an earlier call or begun now; `found` says
  // which. `now`: the clock, in seconds, whose rounding is allowed for.
  struct Solution {
    std::shared_ptr<FlowSolution> solution;
    bool found;
  };
  Solution Of(const std::shared_ptr<const FlowClasses>& classes, std::vector<double> left, double now);
  size_t size() const { return kept_.size(); }

 private:
  struct Kept;
  using List = std::list<Kept>;                                                        // the last used first
  using Index = std::multimap<std::pair<const FlowClasses*, double>, List::iterator>;  // by classes and sum
  struct Kept {
    std::shared_ptr<const FlowClasses> classes;
    std::vector<double> left;  // by class
    std::shared_ptr<FlowSolution> solution;
    Index::iterator place;
  };
  void ForgetOldest();

  const size_t most_kept_;
  List kept_;
  Index index_;
  size_t since_ = 0;  // solutions begun since the oldest were last forgotten
};

}  // namespace twofold::sim
