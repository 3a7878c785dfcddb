// The measured times of collectives, by size.
//
// Assumes: a collective has the links to itself, as when it was measured. Ignores: where its operands come from.
// Calibrated from: medians of a profile (`twofold calibrate`), for one number of ranks. Between two measured sizes,
// time is interpolated linearly in logarithms; below the smallest it is constant; above the largest it grows in
// proportion to the bytes.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/collectives/schedule.h"

namespace twofold::sim {

class MeasuredCollectives {
 public:
  struct Point {
    double bytes, seconds;
  };
  // `points` must ascend in bytes; bytes and seconds must be positive; at least one.
  void Add(Communication::Kind kind, int ranks, std::vector<Point> points);
  bool empty() const { return points_.empty(); }
  // Nothing if that collective was not measured among that many ranks.
  std::optional<double> Seconds(const CollectiveShape& shape) const;

 private:
  std::map<std::pair<Communication::Kind, int>, std::vector<Point>> points_;
};

}  // namespace twofold::sim
