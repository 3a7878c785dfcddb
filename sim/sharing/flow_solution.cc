#include "sim/sharing/flow_solution.h"

#include <algorithm>

#include "core/base/check.h"

namespace twofold::sim {
namespace {

constexpr double kOneMoment = 1e-12;  // changes within this share of a time are of one moment

}  // namespace

FlowSolution::FlowSolution(const FlowClasses& classes, const std::vector<double>& left)
    : classes_(classes),
      rest_(new Rest{.fluid = Fluid(classes.bandwidths),
                     .rates = std::vector<double>(classes.classes.size()),
                     .more = std::vector<double>(classes.links.size())}) {
  for (size_t c = 0; c < classes.classes.size(); ++c) {
    const FlowClasses::Class& own = classes.classes[c];
    if (left[c] == 0) continue;
    rest_->fluid.Add(own.links, left[c], own.rate, own.weights);
    rest_->solved.push_back(static_cast<int>(c));
  }
  rest_->fluid.Start(rest_->next);
}

FlowSolution::FlowSolution(const FlowSolution& like, double factor)
    : classes_(like.classes_), steps_(like.steps_), changes_(like.changes_) {
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

// Changes of one moment make one step.
void FlowSolution::Advance() {
  std::vector<Fluid::Change>& next = rest_->next;
  while (next.empty() || next.back().time <= next.front().time * (1 + kOneMoment)) {
    if (rest_->fluid.Advance(next)) continue;
    if (!next.empty()) AddStep(next.size());
    rest_ = nullptr;
    return;
  }
  AddStep(static_cast<size_t>(
      std::find_if(next.begin(), next.end(),
                   [&](const Fluid::Change& change) { return change.time > next.front().time * (1 + kOneMoment); }) -
      next.begin()));
}

// Of the first changes.
void FlowSolution::AddStep(size_t count) {
  Step step{.time = rest_->next[0].time, .rates = {}, .loads = {}};
  std::vector<int> touched;
  for (size_t i = 0; i < count; ++i) {
    const Fluid::Change& change = rest_->next[i];
    const auto c = static_cast<size_t>(rest_->solved[static_cast<size_t>(change.flow)]);
    double& before = rest_->rates[c];
    if (change.rate == before) continue;
    step.rates.emplace_back(static_cast<int>(c), change.rate);
    const FlowClasses::Class& own = classes_.classes[c];
    for (size_t l = 0; l < own.links.size(); ++l) {
      rest_->more[static_cast<size_t>(own.links[l])] += own.weights[l] * (change.rate - before);
      touched.push_back(own.links[l]);
    }
    before = change.rate;
  }
  rest_->next.erase(rest_->next.begin(), rest_->next.begin() + static_cast<ptrdiff_t>(count));
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  for (const int l : touched) {
    if (const double delta = std::exchange(rest_->more[static_cast<size_t>(l)], 0); delta != 0)
      step.loads.emplace_back(l, delta);
  }
  if (step.rates.empty()) return;
  changes_ += step.rates.size() + step.loads.size();
  steps_.push_back(std::move(step));
}

}  // namespace twofold::sim
