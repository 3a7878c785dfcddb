#include "sim/cost/training_factors.h"

#include <algorithm>
#include <cmath>

namespace twofold {

TrainingFactors::TrainingFactors(const profile::Training& training) {
  for (const profile::KernelFactor& f : training.kernels())
    points_[f.kernel()].push_back({f.alone_s() > 0 ? std::log(f.alone_s()) : 0, f.factor()});
}

std::optional<double> TrainingFactors::Of(std::string_view kernel, Seconds alone) const {
  const auto found = points_.find(kernel);
  if (found == points_.end()) return std::nullopt;
  const std::vector<Point>& points = found->second;
  if (points.size() == 1 || alone.value() <= 0) return points.front().factor;
  const double at = std::log(alone.value());
  const auto above = std::upper_bound(points.begin(), points.end(), at,
                                      [](double value, const Point& p) { return value < p.log_alone; });
  if (above == points.begin()) return points.front().factor;
  if (above == points.end()) return points.back().factor;
  const Point &low = above[-1], &high = *above;
  return low.factor + (high.factor - low.factor) * (at - low.log_alone) / (high.log_alone - low.log_alone);
}

}  // namespace twofold
