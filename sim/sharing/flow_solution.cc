#include "sim/sharing/flow_solution.h"

#include <optional>
#include <utility>

#include "core/base/check.h"

namespace twofold::sim {
FlowSolution::FlowSolution(const FlowClasses& classes, const std::vector<double>& left)
    : rest_(new Rest{.shares = BlockShares(classes.bandwidths)}) {
  for (size_t c = 0; c < classes.classes.size(); ++c) {
    const FlowClasses::Class& own = classes.classes[c];
    if (left[c] == 0) continue;
    rest_->shares.Add(own.links, left[c], own.rate, own.weights);
    rest_->solved.push_back(static_cast<int>(c));
  }
}

FlowSolution::FlowSolution(const FlowSolution& like, double factor) : steps_(like.steps_), changes_(like.changes_) {
  TWOFOLD_CHECK(like.rest_ == nullptr, "its steps are known");
  for (Step& step : steps_) step.time *= factor;
}

const FlowSolution::Step* FlowSolution::Get(size_t number) {
  while (number >= steps_.size() && rest_ != nullptr) Advance();
  return number < steps_.size() ? &steps_[number] : nullptr;
}

const std::vector<FlowSolution::Step>& FlowSolution::Complete() {
  while (rest_ != nullptr) Advance();
  return steps_;
}

void FlowSolution::Advance() {
  std::optional<Step> step = rest_->shares.Next();
  if (!step) {
    rest_ = nullptr;
    return;
  }
  for (auto& [flow, rate] : step->rates) flow = rest_->solved[static_cast<size_t>(flow)];
  if (step->rates.empty()) return;
  changes_ += step->rates.size() + step->loads.size();
  steps_.push_back(*std::move(step));
}

}  // namespace twofold::sim
