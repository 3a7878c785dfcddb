#include "backends/simulated/steady_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/check.h"

namespace twofold {
namespace {

constexpr double kSame = 1e-10;  // of a step
// More steps are not counted: each has an entry in the report, and a run must be able to end within seconds.
constexpr int64_t kMost = int64_t{1} << 16;

}  // namespace

bool SteadyState::AreEqual(const Situations& before, const Situations& now) const {
  const double origin_before = before.begin()->second.time, origin_now = now.begin()->second.time;
  const double tolerance = kSame * (origin_now - origin_before);
  const auto same = [tolerance](double a, double b) { return std::abs(a - b) <= tolerance; };
  for (auto a = before.begin(), b = now.begin(); a != before.end(); ++a, ++b) {
    const Situation &x = a->second, &y = b->second;
    if (a->first != b->first || x.rest != y.rest || x.relative.size() != y.relative.size()) return false;
    if (!same(x.time - origin_before, y.time - origin_now)) return false;
    for (size_t i = 0; i < x.relative.size(); ++i) {
      if (!same(x.relative[i], y.relative[i])) return false;
    }
  }
  return true;
}

int64_t SteadyState::Begin(int rank, int64_t step, int64_t alike, Situation now) {
  if (counted_) return step == counted_->first ? counted_->steps : 0;
  Situations& here = at_[step];
  TWOFOLD_CHECK(here.emplace(rank, std::move(now)).second, "a rank begins a step once");
  if (here.size() < ranks_) return 0;
  const auto before = at_.find(step - 1);
  const bool steady = before != at_.end() && before->second.size() == ranks_ && AreEqual(before->second, here);
  const int64_t first = ranks_ == 1 ? step : at_.rbegin()->first + 1, steps = std::min(kMost, alike - (first - step));
  at_.erase(at_.begin(), at_.find(step));
  if (!steady || steps <= 0) return 0;
  counted_ = {.first = first, .steps = steps};
  at_.clear();
  return first == step ? steps : 0;
}

}  // namespace twofold
