#include "sim/spread.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numbers>
#include <utility>

#include "core/base/check.h"

namespace twofold::sim {
namespace {

// Moments and deviations that differ by less are equal: of the largest deviation, and of a time, for its rounding (four
// or five units in the last place). A larger share of the time would let steps that repeat differ, since the clock goes
// on while their spreads stay.
constexpr double kSame = 1e-9, kRounding = 1e-15;

double Tolerance(const std::vector<Arriving>& all) {
  double deviation = 0, time = 0;
  for (const Arriving& one : all)
    deviation = std::max(deviation, one.deviation), time = std::max(time, std::abs(one.mean));
  return std::max(kSame * deviation, kRounding * time);
}

double Density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double Cumulative(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

// The moments of the maximum's density, n * density * cumulative^(n - 1), by the trapezoidal rule. It converges
// faster than any power of the step, because the density and all its derivatives vanish at both ends.
NormalMaximum Quadrature(int64_t n) {
  constexpr double kFrom = -9, kTo = 9, kStep = 1.0 / 128;
  double all = 0, mean = 0, square = 0;
  for (double x = kFrom; x <= kTo; x += kStep) {
    const double weight = Density(x) * std::exp(static_cast<double>(n - 1) * std::log(Cumulative(x)));
    all += weight, mean += weight * x, square += weight * x * x;
  }
  mean /= all;
  return {mean, std::sqrt(square / all - mean * mean)};
}

Arriving Later(const Arriving& a, const Arriving& b) {
  const double theta = std::hypot(a.deviation, b.deviation);
  if (theta == 0) return a.mean >= b.mean ? a : b;
  const double alpha = (a.mean - b.mean) / theta, p = Cumulative(alpha), d = theta * Density(alpha);
  // Relative to b's mean: times are large beside deviations.
  const double above = a.mean - b.mean, mean = above * p + d;
  const double square =
      (above * above + a.deviation * a.deviation) * p + b.deviation * b.deviation * (1 - p) + above * d;
  return {b.mean + mean, std::sqrt(std::max(0.0, square - mean * mean)), a.count + b.count};
}

// The latest first, those of equal mean by their deviations. Means that hardly differ become equal first: else rounding
// would decide who is next to whom.
std::vector<Arriving> Ordered(std::vector<Arriving> all, double tolerance) {
  std::sort(all.begin(), all.end(), [](const Arriving& a, const Arriving& b) { return a.mean > b.mean; });
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    const double mean = all[begin].mean, least = mean - tolerance;
    for (; end < all.size() && all[end].mean >= least; ++end) all[end].mean = mean;
    std::sort(all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end),
              [](const Arriving& a, const Arriving& b) { return a.deviation > b.deviation; });
  }
  return all;
}

}  // namespace

NormalMaximum MaximumOf(int64_t n) {
  TWOFOLD_CHECK(n >= 1, "a maximum is of at least one");
  if (n == 1) return {0, 1};
  static thread_local std::map<int64_t, NormalMaximum> known;
  const auto [it, fresh] = known.try_emplace(n);
  if (fresh) it->second = Quadrature(n);
  return it->second;
}

Arriving LastOf(std::vector<Arriving> all) {
  TWOFOLD_CHECK(!all.empty(), "someone arrives");
  const double tolerance = Tolerance(all);
  std::vector<Arriving> classes;
  for (const Arriving& one : Ordered(std::move(all), tolerance)) {
    if (!classes.empty() && classes.back().mean == one.mean && classes.back().deviation - one.deviation <= tolerance)
      classes.back().count += one.count;
    else
      classes.push_back(one);
  }
  for (Arriving& one : classes) {
    if (one.deviation == 0) continue;
    const NormalMaximum slowest = MaximumOf(one.count);
    one.mean += slowest.mean * one.deviation, one.deviation *= slowest.deviation;
  }
  Arriving last = classes.front();
  for (size_t i = 1; i < classes.size(); ++i) last = Later(last, classes[i]);
  return last;
}

Spread AfterMeeting(const Spread& before, double deviation, const NormalMaximum& slowest, uint64_t group,
                    bool everyone) {
  if (everyone) return {.group = group, .slowest = slowest.mean};  // nobody is left to differ from
  const double known = before.group == group ? before.shared : 0;
  return {.shared = slowest.deviation * deviation + known, .group = group, .slowest = slowest.mean};
}

Spread AfterWaiting(const Spread& before, double seconds, const Spread& until) {
  const double deviation = before.Within(until.group);
  const double slowest = until.slowest > 0 ? until.slowest : before.slowest;
  const double left = seconds == 0 ? deviation : slowest > 0 ? deviation - seconds / slowest : 0;
  if (deviation == 0 || left <= until.own + until.shared) return {until.own, until.shared, until.group, slowest};
  const double own_slowest = before.slowest > 0 ? before.slowest : slowest;
  if (until.group == before.group) return {left, before.shared, before.group, own_slowest};
  const double share = left / deviation;
  return {before.own * share, before.shared * share, before.group, own_slowest};
}

}  // namespace twofold::sim
