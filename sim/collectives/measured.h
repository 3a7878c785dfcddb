// What collectives take that were measured as they are called, by size.
//
// Assumes: a collective has the links to itself, as when it was measured. Ignores: where its operands come from.
// Calibrated from: medians of a profile (`twofold calibrate`), for one number of ranks. Between two measured sizes time is
// interpolated, linear in logarithms; below the least it is that of the least; above the largest it grows with the bytes.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/collectives/schedule.h"

namespace twofold::sim {

class MeasuredCollectives {
 public:
  struct Point { double bytes, seconds; };
  // `points` ascend in bytes; bytes and seconds are above 0; one or more.
  void Add(Communication::Kind kind, int ranks, std::vector<Point> points);
  bool empty() const { return points_.empty(); }
  // Nothing where that collective was not measured among that many ranks.
  std::optional<double> Seconds(const CollectiveShape& shape) const;

 private:
  std::map<std::pair<Communication::Kind, int>, std::vector<Point>> points_;
};

}  // namespace twofold::sim
