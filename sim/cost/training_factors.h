// How many times as long a kernel takes in a training step as alone, by how long it takes alone.
//
// Law: between the sizes of calls in calibration's training jobs, the factor is linear in the logarithm of the time
// alone; beyond them it is that of the nearest. Small tensors are in the caches when the next operation reads them, and
// large ones are not, as they are not when a kernel is measured alone (with operands that alternate): so factors of
// kernels that compute little rise with size, to about 1.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/proto/profile.pb.h"

namespace twofold {

class TrainingFactors {
 public:
  TrainingFactors() = default;
  explicit TrainingFactors(const profile::Training& training);

  // Of a call that takes `alone` alone; none for a kernel that no training job had.
  std::optional<double> Of(std::string_view kernel, Seconds alone) const;

 private:
  struct Point {
    double log_alone, factor;
  };
  std::map<std::string, std::vector<Point>, std::less<>> points_;  // ascending
};

}  // namespace twofold
