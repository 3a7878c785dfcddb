// Makes a schedule that breaks a rule smaller.
//   Zeller and Hildebrandt 2002, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), section 3 (ddmin).
#pragma once

#include <functional>
#include <optional>

#include "core/proto/storm.pb.h"

namespace twofold::storm {

struct Reduced {
  Schedule schedule;
  int runs = 0;          // that it took
  bool minimal = false;  // no disaster can be left out; false: `most_runs` were not enough
};
// `breaks(schedule)`: whether it still breaks one of the rules that the first one breaks. First leaves disasters out,
// then replaces each by simpler ones: a loss instead of a hang, a step instead of a moment, a smaller number.
Reduced Reduce(const Schedule& schedule, const std::function<bool(const Schedule&)>& breaks, int most_runs);

}  // namespace twofold::storm
