// What the flows of a pattern bring upon ranks and NICs, by kind: of 100,000 ranks most carry alike, and each different
// load is kept once. A schedule of another size has the same loads with other bytes.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "sim/collectives/flow_list.h"

namespace twofold::sim {

struct Places;

struct KindLoads {
  using Load = std::vector<std::pair<int, int>>;  // kinds, and how many flows of each
  std::vector<Load> sent;                         // by a rank, to anybody
  std::vector<Load> within;                       // sent or received by a rank within its node
  std::vector<Load> between;                      // sent or received by a NIC
  struct Kind {
    bool between = false;  // nodes; so are all flows of the kind, or none
    int flows = 0;
  };
  std::vector<Kind> kinds;
};

// Adds them up when they are first asked for, and keeps them with the pattern, by one thread at a time. `kinds`: their
// number. `places`: of the ranks for which the pattern was made; every rank uses its own NIC.
const KindLoads& KindLoadsOf(const FlowPattern& pattern, size_t kinds, const Places& places);

// The bytes of the largest load; `kinds`: one flow of each kind.
double LargestOf(const std::vector<KindLoads::Load>& loads, const std::vector<Flow>& kinds);

}  // namespace twofold::sim
