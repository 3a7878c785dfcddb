#include "sim/sharing/known_solutions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace twofold::sim {
namespace {

// By how much what is left of a class may differ between two meetings that are alike, in bytes.
double Tolerance(const FlowClasses& classes, size_t number, double left, double now) {
  return left * kBytesRounding + classes.FastestOf(classes.classes[number]) * now * kTimesRounding;
}

}  // namespace

KnownSolutions::Solution KnownSolutions::Of(const std::shared_ptr<const FlowClasses>& classes, std::vector<double> left,
                                            double now) {
  std::vector<double> tolerance(left.size());
  for (size_t c = 0; c < left.size(); ++c) tolerance[c] = Tolerance(*classes, c, left[c], now);
  const auto alike = [&](const std::vector<double>& known) {
    for (size_t c = 0; c < left.size(); ++c) {
      if ((left[c] == 0) != (known[c] == 0) || std::abs(left[c] - known[c]) > tolerance[c]) return false;
    }
    return true;
  };
  const double sum = std::accumulate(left.begin(), left.end(), 0.0);
  // The sums themselves are rounded, too.
  const double most = std::accumulate(tolerance.begin(), tolerance.end(), sum * kBytesRounding);
  for (auto it = index_.lower_bound({classes.get(), sum - most});
       it != index_.end() && it->first <= std::pair(classes.get(), sum + most); ++it) {
    if (!alike(it->second->left)) continue;
    kept_.splice(kept_.begin(), kept_, it->second);
    return {kept_.front().solution, true};
  }
  if (++since_ > kept_.size() / 8) ForgetOldest();
  auto solution = std::make_shared<FlowSolution>(*classes, left);
  kept_.push_front({classes, std::move(left), solution, index_.end()});
  kept_.front().place = index_.emplace(std::pair(classes.get(), sum), kept_.begin());
  return {std::move(solution), false};
}

// Solutions grow while their flows last, so that all are looked at. That is seldom enough to cost little.
void KnownSolutions::ForgetOldest() {
  since_ = 0;
  size_t changes = 0;
  for (auto it = kept_.begin(); it != kept_.end();) {
    changes += it->left.size() + it->solution->changes();
    if (changes <= most_kept_) {
      ++it;
      continue;
    }
    index_.erase(it->place);
    it = kept_.erase(it);
  }
}

}  // namespace twofold::sim
