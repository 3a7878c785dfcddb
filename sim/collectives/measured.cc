#include "sim/collectives/measured.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace twofold::sim {

void MeasuredCollectives::Add(Communication::Kind kind, int ranks, std::vector<Point> points) {
  TWOFOLD_CHECK(!points.empty(), "a measured collective has points");
  points_[{kind, ranks}] = std::move(points);
}

std::optional<double> MeasuredCollectives::Seconds(const CollectiveShape& shape) const {
  const auto found = points_.find({shape.kind, shape.ranks});
  if (found == points_.end()) return std::nullopt;
  const std::vector<Point>& points = found->second;
  const auto above = std::lower_bound(points.begin(), points.end(), shape.bytes,
                                      [](const Point& p, double bytes) { return p.bytes < bytes; });
  if (above == points.begin()) return above->seconds;
  if (above == points.end()) return points.back().seconds * shape.bytes / points.back().bytes;
  const Point &a = *(above - 1), &b = *above;
  const double weight = std::log(shape.bytes / a.bytes) / std::log(b.bytes / a.bytes);
  return a.seconds * std::pow(b.seconds / a.seconds, weight);
}

}  // namespace twofold::sim
