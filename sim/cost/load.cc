#include "sim/cost/load.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace twofold {

Range Widened(const Range& known, const profile::Load& load) {
  return {(1 - load.kept()) * std::min(known.low, load.fixed_low()),
          std::max(known.high, load.fixed_high()) / (1 - load.taken())};
}

std::string DescribeLoad(const profile::Profile& profile) {
  if (!profile.has_load()) return "";
  const profile::Load& load = profile.load();
  const Range wider = Widened({}, load);
  return absl::StrFormat(
      "; other work delayed the calibration by up to %.0f %% of the time (%.0f %% in the measurements that were kept; "
      "%d measurement%s repeated), so intervals reach at least from %.2f to %.2f times the estimate",
      100 * load.taken(), 100 * load.kept(), load.repeated(), load.repeated() == 1 ? " was" : "s were", wider.low,
      wider.high);
}

}  // namespace twofold
