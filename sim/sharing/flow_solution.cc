#include "sim/sharing/flow_solution.h"

#include <optional>
#include <utility>

#include "core/base/check.h"

namespace twofold::sim {
namespace {

std::shared_ptr<const FlowBlocks::Network> NetworkOf(const FlowClasses& classes) {
  if (auto known = classes.network.lock()) return known;
  FlowBlocks::Flows flows{.bandwidths = classes.bandwidths, .links = {}, .weights = {}, .limits = {}};
  for (const FlowClasses::Class& c : classes.classes) flows.Add(c.links, c.weights, c.rate);
  auto network = std::make_shared<const FlowBlocks::Network>(std::move(flows));
  classes.network = network;
  return network;
}

}  // namespace

FlowSolution::FlowSolution(const FlowClasses& classes, const std::vector<double>& left)
    : rest_(std::make_unique<BlockShares>(NetworkOf(classes), left)) {}

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
  std::optional<Step> step = rest_->Next();
  if (!step) {
    rest_ = nullptr;
    return;
  }
  if (step->rates.empty()) return;
  changes_ += step->rates.size() + step->loads.size();
  steps_.push_back(*std::move(step));
}

}  // namespace twofold::sim
