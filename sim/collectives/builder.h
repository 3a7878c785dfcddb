// What the algorithms share.
#pragma once

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "core/base/strings.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim {

inline int CeilLog2(int n) { return n <= 1 ? 0 : std::bit_width(static_cast<unsigned>(n - 1)); }

// Fills in last_phase from the flows. A phase without flows is everybody's.
inline Schedule Finished(std::vector<Phase> phases, int ranks) {
  Schedule s{std::move(phases), std::vector<int>(static_cast<size_t>(ranks), -1)};
  for (size_t p = 0; p < s.phases.size(); ++p) {
    if (s.phases[p].flows.empty()) std::fill(s.last_phase.begin(), s.last_phase.end(), static_cast<int>(p));
    for (const Flow& f : s.phases[p].flows) {
      s.last_phase[static_cast<size_t>(f.from)] = s.last_phase[static_cast<size_t>(f.to)] = static_cast<int>(p);
    }
  }
  return s;
}

inline absl::Status NoForm(std::string_view algorithm, const CollectiveShape& shape, std::string_view why = "") {
  return absl::UnimplementedError(StrCat("algorithm ", algorithm, " has no ", KindName(shape.kind), " over ",
                                               shape.ranks, " ranks", why.empty() ? "" : ": ", why));
}

}  // namespace twofold::sim
