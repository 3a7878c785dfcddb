// How flows of some classes share their links, step by step: the moments at which rates change.
//
// Steps are solved when they are asked for: flows that soon meet others need only the first ones.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "sim/sharing/flow_classes.h"
#include "sim/sharing/fluid.h"

namespace twofold::sim {

class FlowSolution {
 public:
  struct Step {
    double time;                                // since the beginning
    std::vector<std::pair<int, double>> rates;  // class, its flows' rate from now on; 0: they have ended
    std::vector<std::pair<int, double>> loads;  // link class, change of its links' load
  };
  // `left`: bytes by class; classes with nothing left take no part. The classes must outlive this.
  FlowSolution(const FlowClasses& classes, const std::vector<double>& left);
  // The same with `factor` times the bytes: it has the same rates, and takes so many times as long. `like`: complete.
  FlowSolution(const FlowSolution& like, double factor);

  const Step* Get(size_t number);  // null: the one before is the last. Valid until the next call.
  const std::vector<Step>& Complete();
  const std::vector<Step>& known() const { return steps_; }
  size_t changes() const { return changes_; }  // in the known steps

 private:
  void Advance();
  void AddStep(size_t count);

  const FlowClasses& classes_;
  std::vector<Step> steps_;
  size_t changes_ = 0;
  struct Rest {  // what is needed to go on
    Fluid fluid;
    std::vector<int> solved = {};  // classes, by flow
    std::vector<double> rates, more;
    std::vector<Fluid::Change> next = {};  // changes that are not in a step
  };
  std::unique_ptr<Rest> rest_;  // null: all steps are known
};

}  // namespace twofold::sim
