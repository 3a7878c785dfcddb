// The order of a graph's nodes, and its cycles.
#pragma once

#include <cstdint>
#include <vector>

#include "core/run/workload.h"

namespace twofold {

// Places of nodes, each after all that it follows; otherwise by `begins`, if it is given, and then in their own order,
// as far as that goes (Kahn 1962, "Topological Sorting of Large Networks"). Nodes on cycles, and those behind them, are
// left out.
std::vector<int> OrderOf(const std::vector<WorkloadNode>& nodes, const std::vector<uint64_t>& begins = {});

// Of nodes that `order`, which OrderOf returned, leaves out: a cycle, from a node to the same node, in the direction of
// time.
std::vector<int> CycleOf(const std::vector<WorkloadNode>& nodes, const std::vector<int>& order);

}  // namespace twofold
