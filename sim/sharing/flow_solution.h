// How flows of some classes share their links, step by step: the moments at which rates change.
//
// Steps are solved when they are asked for: flows that soon meet others need only the first ones.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "sim/sharing/block_shares.h"
#include "sim/sharing/flow_classes.h"

namespace twofold::sim {

class FlowSolution {
 public:
  using Step = BlockShares::Step;  // its flows: classes; its links: link classes
  // `left`: bytes by class; classes with nothing left take no part.
  FlowSolution(const FlowClasses& classes, const std::vector<double>& left);
  // The same with `factor` times the bytes: it has the same rates, and takes so many times as long. `like`: complete.
  FlowSolution(const FlowSolution& like, double factor);

  const Step* Get(size_t number);  // null: the one before is the last. Valid until the next call.
  const std::vector<Step>& Complete();
  const std::vector<Step>& known() const { return steps_; }
  size_t changes() const { return changes_; }  // in the known steps

 private:
  void Advance();

  std::vector<Step> steps_;
  size_t changes_ = 0;
  std::unique_ptr<BlockShares> rest_;  // what is needed to go on; null: all steps are known
};

}  // namespace twofold::sim
